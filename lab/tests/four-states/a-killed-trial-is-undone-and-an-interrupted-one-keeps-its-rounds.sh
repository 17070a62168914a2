. ./assert.sh

begin reveille trial --settings C1 --rounds 100 --settle 2s -- true
wait_for 120 limited_to 1 "C2 C3"
kill -9 "$begun"
ends 137
run 0 reveille restore
equal "CPU 0's disabled states" "$(disabled 0)" ""
equal "CPU 1's disabled states" "$(disabled 1)" ""

begin reveille trial --settings C1 --rounds 200 --settle 200ms --out /tmp/interrupted-trial -- \
  sh -c 'echo run >>/tmp/runs'
# Two rounds of both settings are over.
wait_for 60 has_lines 5 run /tmp/runs
wait_for 120 limited_to 1 "C2 C3"
kill -s TERM "$begun"
ends 130
equal "CPU 1's disabled states" "$(disabled 1)" ""
contains "trial.json" '"ended":"interrupted"' "$(cat /tmp/interrupted-trial/trial.json)"
run 0 reveille report /tmp/interrupted-trial
