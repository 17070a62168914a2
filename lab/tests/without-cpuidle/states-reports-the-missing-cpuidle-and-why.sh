. ./assert.sh

run 0 reveille states
contains "reveille states" "cpuidle.off=1" "$output"
