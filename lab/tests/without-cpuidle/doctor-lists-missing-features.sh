. ./assert.sh

run 0 reveille doctor
contains "reveille doctor" "cpuidle" "$output"
