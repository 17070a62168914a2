# Of which the completion is an interrupt's.
. ./assert.sh

anticipates --budget 50% --json
for disk in nvme0n1 vda; do
  reads $disk 300
  # Written past the page cache: somebody waits for each.
  run 0 dd if=/dev/zero of=/dev/$disk bs=4k count=200 oflag=direct
done
kill -s INT "$begun"
ends 0
for disk in nvme0n1 vda; do
  equal "reads of $disk" "$(figure $disk read requests)" 300
  equal "writes of $disk" "$(figure $disk write requests)" 200
  for operation in read write; do
    at_least "${operation}s of $disk that were assisted" "$(figure $disk $operation assisted)" 1
    adds_up $disk $operation
  done
done
