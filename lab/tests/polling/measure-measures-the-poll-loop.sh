. ./assert.sh

run 0 reveille measure --cpu 1 --duration 4s --out /tmp/poll
at_least "datapoints" "$(datapoints /tmp/poll cpu 1)" 50
