. ./assert.sh

before=$(settings)
anticipates
at_least "BPF programs of the engine" "$(programs)" 10
kill -9 "$begun"
ends 137
wait_for 60 no_programs
# Here kernel.timer_migration may still have the engine's value; and its socket exists.
anticipates --duration 1s
ends 0
wait_for 60 no_programs
equal "the machine's settings" "$(settings)" "$before"
