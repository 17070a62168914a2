. ./assert.sh

run 0 reveille states
says "reveille states" "cpuidle.off=1" "$output"
