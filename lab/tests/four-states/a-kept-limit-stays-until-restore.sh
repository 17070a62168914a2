. ./assert.sh

run 0 reveille limit --deepest C2 --keep
run 0 reveille states
equal "CPU 0's disabled states" "$(disabled 0)" C3
# A second limit in addition to the first, and its end.
run 0 reveille limit --deepest C1 -- true
equal "CPU 1's disabled states" "$(disabled 1)" C3
run 0 reveille restore --killed
equal "CPU 1's disabled states" "$(disabled 1)" C3
# A setting that someone else changes is left alone.
echo 0 >"$(state 1 C3)/disable"
run 0 reveille restore
contains "reveille restore" "cpu0/cpuidle/state3/disable: back to 0" "$output"
equal "CPU 0's disabled states" "$(disabled 0)" ""
equal "CPU 1's disabled states" "$(disabled 1)" ""
run 0 reveille restore
contains "a second restore" "nothing to restore" "$output"
