. ./assert.sh

# ends_early CPU WHY ARGUMENT...: a measurement of that CPU, while CPU 1 is offline between two of its checks.
ends_early() {
  local cpu=$1 why=$2
  shift 2
  begin reveille measure --cpu "$cpu" "$@" --duration 100s --out /tmp/moment
  gathers /tmp/moment 1
  echo 0 >"$cpus/cpu1/online"
  echo 1 >"$cpus/cpu1/online"
  ends 1
  contains "how \`measure --cpu $cpu $*\` ended" "$why" "$(described /tmp/moment disturbed)"
  rm -r /tmp/moment
}
ends_early 1 'CPU 1 went offline' --source timer
ends_early 1 'CPU 1 went offline' --source remote
ends_early 1 'CPU 1 went offline' --probe user
ends_early 1 'CPU 1 went offline' --source hpet
equal "the CPUs of the HPET's interrupt" "$(cat /proc/irq/16/smp_affinity_list)" 0-1
ends_early 0 'CPU 1, which woke it, went offline' --source remote

# It is offline when the second source begins: the first one's datapoints are kept and reported.
begin reveille measure --cpu 0 --source timer,remote --duration 40s --out /tmp/gone
gathers /tmp/gone 1
echo 0 >"$cpus/cpu1/online"
ends 1
echo 1 >"$cpus/cpu1/online"
contains 'what it printed' '^Result ' "$(cat /tmp/begun)"
contains 'why it ended' 'source remote' "$(described /tmp/gone disturbed)"
