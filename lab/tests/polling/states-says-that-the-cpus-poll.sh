. ./assert.sh

run 0 reveille states
says "reveille states" "idle=poll" "$output"
