. ./assert.sh
before=$(settings)
captures --mode mem --wake-after 4s --repeat 20
prints '^reveille: suspending'
kill -s TERM "$begun"
ends 130
equal "the settings after the capture" "$(settings)" "$before"
contains "the capture" 'ended after [01] of 20 cycles' "$(cat /tmp/begun)"
equal "whether it reports the interruption" "$(captured interrupted)" true
equal "the cycles in the log" "$(grep -c 'PM: suspend exit' /tmp/capture/dmesg.txt)" \
  "$(grep -c '"asleep_us"' /tmp/capture/capture.json)"
