. ./assert.sh

begin reveille measure --cpu 1 --state C1 --duration 60s --out /tmp/killed-restore
wait_for 120 limited_to 1 "C2 C3"
kill -9 "$begun"
ends 137
run 0 reveille restore
contains "reveille restore" "state3/disable" "$output"
equal "CPU 1's disabled states" "$(disabled 1)" ""
run 0 reveille restore
