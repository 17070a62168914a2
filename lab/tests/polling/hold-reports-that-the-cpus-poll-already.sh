. ./assert.sh

run 0 reveille hold --latency 10us -- true
contains "hold" "poll here already" "$output"
