. ./assert.sh

run 0 reveille doctor
says "reveille doctor" "cpuidle" "$output"
