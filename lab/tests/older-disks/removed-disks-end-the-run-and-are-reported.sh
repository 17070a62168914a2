. ./assert.sh

make_disk slow 2000000
anticipates --device slow --device nvme0n1 --json
dd if=/dev/slow of=/dev/null bs=4k iflag=direct 2>/dev/null &
reader=$!
reads nvme0n1 40
# Its requests in flight fail.
remove_disk slow
wait $reader || true
prints "The disk slow is gone"
reads nvme0n1 40
# Taken out of its slot.
controller=$(realpath /sys/block/nvme0n1/device/device)
echo 1 >"$controller/remove"
ends 3
contains "how it ended" "^reveille: the anticipated disks are gone$" "$(cat /tmp/begun)"
equal "requests of nvme0n1" "$(figure nvme0n1 read requests)" 80
wait_for 60 no_programs
echo 1 >/sys/bus/pci/rescan
wait_for 60 test -b /dev/nvme0n1

# And with the whole driver.
make_disk slow 2000000
anticipates --device slow
reads slow 40
remove_disk slow
rmmod null_blk
ends 3
modprobe null_blk nr_devices=0
