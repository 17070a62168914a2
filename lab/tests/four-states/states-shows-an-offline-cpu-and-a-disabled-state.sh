. ./assert.sh

echo 0 >"$cpus/cpu1/online"
output=$(reveille states 2>&1) || true
echo 1 >"$cpus/cpu1/online"
contains "states with CPU 1 offline" "offline" "$output"

c3=$(state 1 C3)
echo 1 >"$c3/disable"
output=$(reveille states --json --cpu 1 2>&1) || true
echo 0 >"$c3/disable"
contains "states with C3 disabled" '"disabled": true' "$output"
