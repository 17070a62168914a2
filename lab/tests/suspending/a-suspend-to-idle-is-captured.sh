. ./assert.sh
# The emulator's clock rings, but to a CPU that idles in s2idle the bell is an interrupt that is
# held back, not a wake-up event: the power button is one.
before=$(settings)
# On a busy host it may not sleep yet when it is done for the first time.
from_outside 'power button in 12 s'
from_outside 'power button in 60 s'
captures --mode freeze --wake-after 300s
ends 0
equal "the settings after the capture" "$(settings)" "$before"
equal "what it slept in" "$(sed -n 's/^ *"sleep": "\(.*\)",$/\1/p' /tmp/capture/capture.json)" s2idle
equal "whether the alarm woke it" "$(captured alarm_rang)" false
says "the capture" 'woken before the alarm' "$(cat /tmp/begun)"
has_lines 1 'PM: suspend entry (s2idle)' /tmp/capture/dmesg.txt || fail "the log has no s2idle"
has_lines 1 'PM: suspend exit' /tmp/capture/dmesg.txt || fail "the log does not get to its end"
