. ./assert.sh

run 0 reveille measure --cpu 1 --probe user --datapoints 50 --out /tmp/user
equal "the probe" "$(described /tmp/user probe)" '"user"'
at_least "datapoints" "$(datapoints /tmp/user first thread)" 50
contains "measure --probe user" "thread" "$output"
