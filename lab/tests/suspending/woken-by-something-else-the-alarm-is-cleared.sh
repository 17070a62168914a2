. ./assert.sh
echo 'lab: wake in 12 s' >/dev/ttyS1
captures --mode mem --wake-after 300s
ends 0
equal "whether the alarm woke it" "$(captured alarm_rang)" false
says "the capture" 'cycle 1: asleep .*, woken before the alarm' "$(cat /tmp/begun)"
equal "the alarm that is left" "$(cat /sys/class/rtc/rtc0/wakealarm)" ""
