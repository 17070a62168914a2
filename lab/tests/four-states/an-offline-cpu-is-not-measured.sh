. ./assert.sh

echo 0 >"$cpus/cpu1/online"
status=0
output=$(reveille measure --cpu 1 --duration 1s --out /tmp/bad 2>&1) || status=$?
echo 1 >"$cpus/cpu1/online"
equal "the exit status" "$status" 2
contains "measure on an offline CPU" "offline" "$output"
