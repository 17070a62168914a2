. ./assert.sh

equal "BPF programs before" "$(programs)" 0
before=$(settings)
anticipates --json
at_least "BPF programs of the engine" "$(programs)" 10
reads vda 20
kill -s TERM "$begun"
ends 0
at_least "requests that it saw" "$(figure vda read requests)" 20
wait_for 60 no_programs
[ ! -e /tmp/socket ] || fail "the socket is left"
equal "the machine's settings" "$(settings)" "$before"
