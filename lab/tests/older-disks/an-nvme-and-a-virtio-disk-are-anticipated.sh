# Their completions come by interrupt.
. ./assert.sh

anticipates --budget 50% --json
for disk in nvme0n1 vda; do
  reads $disk 300
  # Bypasses the page cache: a task waits for each write.
  run 0 dd if=/dev/zero of=/dev/$disk bs=4k count=200 oflag=direct
done
kill -s TERM "$begun"
ends 0
for disk in nvme0n1 vda; do
  equal "reads of $disk" "$(figure $disk read requests)" 300
  equal "writes of $disk" "$(figure $disk write requests)" 200
  adds_up $disk read
  adds_up $disk write
  at_least "reads of $disk that were assisted" "$(figure $disk read assisted)" 1
  # For writes to the disk itself, 6.1 leaves the request to a kernel thread when the writer goes to
  # sleep: the waiting task is unknown.
  writes=$(figure $disk write assisted)
  [ "$writes" -gt 0 ] || writes=$(figure $disk write unattended)
  at_least "writes of $disk that were assisted, or issued by the kernel" "$writes" 1
done
