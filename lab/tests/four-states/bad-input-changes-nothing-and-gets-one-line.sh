. ./assert.sh

measure() {
  reveille measure --duration 1s --out /tmp/bad "$@"
}
complains 2 "CPU 7" measure --cpu 7
complains 2 "C9.*POLL" measure --state C9
complains 2 "8ms" measure --distance 8ms..100us
complains 2 "distance" measure --distance 0..1ms
complains 2 "distance" measure --distance 1ms..1h
complains 2 "source" measure --source carrier-pigeon
complains 2 "above zero" reveille measure --duration 0s --out /tmp/bad
[ ! -e /tmp/bad ] || fail "left /tmp/bad behind"
