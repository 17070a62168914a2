. ./assert.sh

run 0 reveille measure --cpu 1 --source timer --datapoints 50 --out /tmp/flags
at_least "datapoints" "$(datapoints /tmp/flags source timer)" 50
arming=$(described /tmp/flags arming)
contains "the result's arming" "absolute" "$arming"
contains "the result's arming" "pinned" "$arming"
