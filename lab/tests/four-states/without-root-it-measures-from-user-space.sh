. ./assert.sh

run 0 su nobody -s /bin/sh -c "reveille measure --cpu 1 --datapoints 50 --out /tmp/nobody"
equal "the probe" "$(described /tmp/nobody probe)" '"user"'
at_least "datapoints" "$(datapoints /tmp/nobody first thread)" 50
complains 3 "root" su nobody -s /bin/sh -c "reveille measure --probe bpf --duration 1s --out /tmp/nobody-bpf"
