. ./assert.sh

run 0 reveille measure --cpu 1 --datapoints 50 --out /tmp/default
at_least "datapoints" "$(datapoints /tmp/default cpu 1)" 50
complains 2 "no idle states" reveille measure --cpu 1 --state C2 --duration 1s --out /tmp/none
