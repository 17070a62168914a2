. ./assert.sh

echo 20 >"$cpus/cpu1/power/pm_qos_resume_latency_us"
echo 1 >"$(state 0 C3)/disable"
exec 3>/dev/cpu_dma_latency
printf '\100\0\0\0' >&3
run 0 reveille top --json --count 1 --interval 500ms
exec 3>&-
echo 0 >"$cpus/cpu1/power/pm_qos_resume_latency_us"
echo 0 >"$(state 0 C3)/disable"
contains "top" '64 µs requested for all CPUs' "$output"
contains "top" 'has /dev/cpu_dma_latency open' "$output"
contains "top" '20 µs by pm_qos_resume_latency_us of CPU 1' "$output"
contains "top" 'C3 disabled on CPU 0' "$output"
contains "top of CPU 1" '"label":"CPU 1".*"bound_us":20' "$output"
