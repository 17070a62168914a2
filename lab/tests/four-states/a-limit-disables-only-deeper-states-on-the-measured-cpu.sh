. ./assert.sh

begin reveille measure --cpu 1 --state C2 --duration 100s --out /tmp/limit
wait_for 120 limited_to 1 C3
equal "CPU 0's disabled states" "$(disabled 0)" ""
gathers /tmp/limit 1 C2
kill -s TERM "$begun"
ends 130
equal "CPU 1's disabled states afterwards" "$(disabled 1)" ""
at_least "datapoints in C2" "$(datapoints /tmp/limit requested_state C2)" 1
equal "datapoints in C3" "$(datapoints /tmp/limit requested_state C3)" 0
equal "journals left" "$(find /run/reveille -type f 2>/dev/null)" ""
