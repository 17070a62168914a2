. ./assert.sh

at_least "the size of the kernel's BTF" "$(wc -c </sys/kernel/btf/vmlinux)" 1000000
[ -e /sys/kernel/tracing/events/power/cpu_idle/format ] || fail "no tracepoint power:cpu_idle"
