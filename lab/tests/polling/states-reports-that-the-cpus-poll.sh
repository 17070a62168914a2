. ./assert.sh

run 0 reveille states
contains "reveille states" "idle=poll" "$output"
