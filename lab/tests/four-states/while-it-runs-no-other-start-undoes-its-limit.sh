. ./assert.sh

begin reveille measure --cpu 1 --state C2 --duration 100s --out /tmp/undisturbed
wait_for 120 limited_to 1 C3
run 0 reveille states
run 0 reveille restore
equal "CPU 1's disabled states after restore" "$(disabled 1)" C3
kill -s INT "$begun"
ends 130
