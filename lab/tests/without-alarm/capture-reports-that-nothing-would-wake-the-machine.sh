. ./assert.sh
contains "what the kernel offers" freeze "$(cat /sys/power/state)"
complains 3 'no alarm can wake this machine: of rtc0 none has a wakealarm' \
  reveille resume capture --virtual-machine --out /tmp/never
[ ! -e /tmp/never ] || fail "a refused capture has made its folder"
run 0 reveille doctor --all
contains "doctor" 'no  *alarm to wake by' "$output"
