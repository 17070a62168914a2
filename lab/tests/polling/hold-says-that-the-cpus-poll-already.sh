. ./assert.sh

run 0 reveille hold --latency 10us -- true
says "hold" "poll here already" "$output"
