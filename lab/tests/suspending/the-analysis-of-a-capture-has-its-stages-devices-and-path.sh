. ./assert.sh
captures --mode mem --wake-after 5s --json
ends 0
grep -v '^reveille: ' /tmp/begun >/tmp/both.json

# value FILE NAME: the first whole number of that name.
value() {
  sed -n "s/^ *\"$2\": \(-\{0,1\}[0-9]*\),*\$/\1/p" "$1" | head -n 1
}
equal "the format" "$(sed -n 's/^ *"format": "\(.*\)",$/\1/p' /tmp/both.json | head -n 1)" reveille-resume
for stage in freeze prepare suspend suspend_late suspend_noirq cpus_off platform cpus_on \
  resume_noirq resume_early resume complete thaw; do
  has_lines 1 "\"$stage\"" /tmp/both.json || fail "the analysis has no stage $stage"
done
for device in nvme ata1 virtio0 snd_hda_intel usb1 sd; do
  has_lines 1 "\"$device\"" /tmp/both.json || fail "the analysis has no $device"
done

# The log and the trace of one cycle are two witnesses of the same resume. What is printed of each
# device is in the times of both; the marks of its beginning and end are lines apart.
for witness in dmesg trace; do
  reveille resume analyze --json /tmp/capture/$witness.txt >/tmp/$witness.json
done
log=$(value /tmp/dmesg.json resume_us)
trace=$(value /tmp/trace.json resume_us)
at_least "the resume by the log, us" "$log" 1
at_least "the resume by the trace, us" "$trace" 1
apart=$((log - trace))
[ ${apart#-} -le $((trace / 4 + 50000)) ] || fail "the resume took $log us by the log, and $trace us by the trace"
