. ./assert.sh

begin reveille measure --cpu 1 --state C2 --duration 100s --out /tmp/offline
wait_for 120 limited_to 1 C3
gathers /tmp/offline 1
echo 0 >"$cpus/cpu1/online"
wait "$begun" || true
echo 1 >"$cpus/cpu1/online"
contains "how it ended" "offline" "$(described /tmp/offline disturbed)"
at_least "datapoints kept" "$(datapoints /tmp/offline cpu 1)" 1
dropped=$(sed -n '/"dropped": {/,/}/p' /tmp/offline/result.json | awk -F ': ' '{ sum += $2 } END { print sum + 0 }')
equal "datapoints and counted drops" $(($(described /tmp/offline kept) + dropped)) \
  "$(described /tmp/offline launched)"
# The setting of an offline CPU is not writable now: the next start writes it.
run 0 reveille restore
equal "CPU 1's disabled states" "$(disabled 1)" ""
