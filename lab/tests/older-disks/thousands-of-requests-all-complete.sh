# Timers expire while completions come: if one waits for the other then, it waits forever, and so does
# the guest. That once happened within a few thousand requests.
. ./assert.sh

anticipates --budget 100% --json
for disk in nvme0n1 vda; do
  reads $disk 5000
done
kill -s TERM "$begun"
ends 0
for disk in nvme0n1 vda; do
  equal "reads of $disk" "$(figure $disk read requests)" 5000
  at_least "reads of $disk that were assisted" "$(figure $disk read assisted)" 1000
  adds_up $disk read
done
