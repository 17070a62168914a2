. ./assert.sh

complains 2 "no process 99999" reveille cost --pid 99999
complains 2 "no such command" reveille cost -- nonesuch
complains 2 "not a time such as 30s" reveille cost --all-tasks --duration soon
complains 2 "must be above zero" reveille cost --all-tasks --duration 0s
mkdir -p /tmp/taken && touch /tmp/taken/cost.json
complains 2 "is there already" reveille cost --all-tasks --duration 1s --out /tmp/taken
run 7 reveille cost -- sh -c 'exit 7'
