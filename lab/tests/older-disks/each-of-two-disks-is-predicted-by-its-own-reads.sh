# A read takes at least as long as null_blk's timer, and at most as long as `dd` took for each of its
# own, however busy the host is.
. ./assert.sh

# us_per_read DISK: the duration of each of 64 reads, by the reader's clock; the model keeps the last 64.
us_per_read() {
  local started
  started=$(cut -d ' ' -f 1 /proc/uptime)
  reads "$1" 64
  awk -v started="$started" '{ printf "%d\n", ($1 - started) * 1e6 / 64 }' /proc/uptime
}

make_disk fast 4000000
make_disk slow 16000000
anticipates --device fast --device slow --budget 100% --json
fast=$(us_per_read fast) slow=$(us_per_read slow)
kill -s TERM "$begun"
ends 0
for disk in fast slow; do
  equal "requests of $disk" "$(figure $disk read requests)" 64
  at_least "requests of $disk that were assisted" "$(figure $disk read assisted)" 1
  at_least "requests of $disk for which the CPU was woken" "$(woken_for $disk read)" 1
  adds_up $disk read
done
at_least "the mean of fast, µs" "$(figure fast read mean_us)" 4000
at_least "the mean of slow, µs" "$(figure slow read mean_us)" 16000
at_least "what a read of fast took, and a tenth more, µs" $((fast * 11 / 10)) "$(figure fast read mean_us)"
at_least "what a read of slow took, and a tenth more, µs" $((slow * 11 / 10)) "$(figure slow read mean_us)"
