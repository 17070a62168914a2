. ./assert.sh

ip link set lo up

# ends_early FLAG...: a trial over loopback, while CPU 1, which answers, is offline for a moment.
ends_early() {
  begin reveille trial --echo self "$@" --rounds 100 --requests 10 --settings no-sleep
  sleep 5
  echo 0 >"$cpus/cpu1/online"
  sleep 2
  echo 1 >"$cpus/cpu1/online"
  ends 1
  contains "\`trial --echo self $*\`" 'the thread on CPU 1 is no longer bound to it' "$(cat /tmp/begun)"
}
ends_early
ends_early --tcp
