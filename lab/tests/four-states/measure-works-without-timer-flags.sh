# 6.1 has neither BPF_F_TIMER_ABS (6.4) nor BPF_F_TIMER_CPU_PIN (6.7).
. ./assert.sh

run 0 reveille measure --cpu 1 --source timer --datapoints 50 --out /tmp/flags
at_least "datapoints" "$(datapoints /tmp/flags source timer)" 50
arming=$(described /tmp/flags arming)
contains "the result's arming" "relative" "$arming"
