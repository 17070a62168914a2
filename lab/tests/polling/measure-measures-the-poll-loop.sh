. ./assert.sh

run 0 reveille measure --cpu 1 --datapoints 50 --out /tmp/poll
at_least "datapoints" "$(datapoints /tmp/poll cpu 1)" 50
