. ./assert.sh

mkdir -p /tmp/full
mount -t tmpfs -o size=64k full /tmp/full
dd if=/dev/zero of=/tmp/full/filler bs=1k count=1000 2>/dev/null || true
run 1 reveille measure --cpu 1 --state C2 --duration 2s --out /tmp/full/result
contains "measure on a full disk" "No space" "$output"
umount /tmp/full
equal "CPU 1's disabled states" "$(disabled 1)" ""
