# The disk comes back slower, under the same number: for the engine it is the same disk. The engine
# continues in the meantime, because the other disk is there.
. ./assert.sh

make_disk jumping 2000000
number=$(cat /sys/block/jumping/dev)
anticipates --device jumping --device vda --json
reads jumping 64
remove_disk jumping
make_disk jumping 20000000
[ "$(cat /sys/block/jumping/dev)" = "$number" ] || skip "the disk has another number now"
reads jumping 100
kill -s TERM "$begun"
ends 0
# The kernel also reads it to look for partitions.
at_least "requests" "$(figure jumping read requests)" 164
at_least "times that the model began anew" "$(figure jumping read changes)" 1
at_least "the mean, µs" "$(figure jumping read mean_us)" 19000
at_least "the time before which one in twenty is complete, µs" "$(figure jumping read early_us)" 10000
adds_up jumping read
