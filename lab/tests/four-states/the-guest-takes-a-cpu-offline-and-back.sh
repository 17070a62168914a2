. ./assert.sh

echo 0 >"$cpus/cpu1/online"
equal "CPUs online" "$(cat "$cpus/online")" 0
echo 1 >"$cpus/cpu1/online"
equal "CPUs online" "$(cat "$cpus/online")" 0-1
