. ./assert.sh

equal "kernel.timer_migration" "$(cat /proc/sys/kernel/timer_migration)" 1
run 0 reveille doctor --all
contains "doctor" "yes *pinned timers" "$output"
make_disk slow 2000000
anticipates --device slow --budget 100% --json
equal "kernel.timer_migration meanwhile" "$(cat /proc/sys/kernel/timer_migration)" 1
reads slow 100
kill -s TERM "$begun"
ends 0
at_least "reads that were assisted" "$(figure slow read assisted)" 1
equal "timers that strayed" "$(grep -c '"strayed": [1-9]' /tmp/begun)" 0
equal "timers that the kernel refused" "$(grep -c '"refused": [1-9]' /tmp/begun)" 0
