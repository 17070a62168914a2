. ./assert.sh

make_disk slow 2000000
anticipates --device slow --budget 100% --json
reads slow 40
echo 0 >"$cpus/cpu1/online"
reads slow 40
echo 1 >"$cpus/cpu1/online"
run 0 taskset 2 dd if=/dev/slow of=/dev/null bs=4k count=40 iflag=direct
kill -s TERM "$begun"
ends 0
equal "requests" "$(figure slow read requests)" 120
adds_up slow read
