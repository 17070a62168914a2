. ./assert.sh
# The alarm of the emulator's clock fires, but for a CPU in s2idle it is a masked
# interrupt, not a wake-up event. The power button is one.
before=$(settings)
# On a busy host the guest may not sleep yet at the first press.
from_outside 'power button in 12 s'
from_outside 'power button in 60 s'
captures --mode freeze --wake-after 300s
ends 0
equal "the settings after the capture" "$(settings)" "$before"
equal "what it slept in" "$(sed -n 's/^ *"sleep": "\(.*\)",$/\1/p' /tmp/capture/capture.json)" s2idle
equal "whether the alarm woke it" "$(captured alarm_rang)" false
contains "the capture" 'woken before the alarm' "$(cat /tmp/begun)"
has_lines 1 'PM: suspend entry (s2idle)' /tmp/capture/dmesg.txt || fail "the log has no s2idle"
has_lines 1 'PM: suspend exit' /tmp/capture/dmesg.txt || fail "the log does not get to its end"
