. ./assert.sh
# On a busy host the guest may not sleep yet at the first press.
from_outside 'wake in 12 s'
from_outside 'wake in 60 s'
captures --mode mem --wake-after 300s
ends 0
equal "whether the alarm woke it" "$(captured alarm_rang)" false
contains "the capture" 'cycle 1: asleep .*, woken before the alarm' "$(cat /tmp/begun)"
equal "the alarm that is left" "$(cat /sys/class/rtc/rtc0/wakealarm)" ""
