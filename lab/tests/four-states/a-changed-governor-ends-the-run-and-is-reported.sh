. ./assert.sh

governor=$cpus/cpuidle/current_governor
begin reveille measure --cpu 1 --state C2 --duration 100s --out /tmp/governor
wait_for 120 limited_to 1 C3
gathers /tmp/governor 1
echo ladder >"$governor"
wait "$begun" || true
equal "the governor afterwards" "$(cat "$governor")" ladder
echo menu >"$governor"
contains "how it ended" "governor" "$(described /tmp/governor disturbed)"
at_least "datapoints kept" "$(datapoints /tmp/governor cpu 1)" 1
equal "CPU 1's disabled states" "$(disabled 1)" ""
