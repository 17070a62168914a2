. ./assert.sh
captures --mode mem --wake-after 5s --json
ends 0
grep -v '^reveille: ' /tmp/begun >/tmp/both.json

# devices_us FILE: the duration of the devices' main resume.
devices_us() {
  awk '$1 == "\"stage\":" { here = $2 == "\"resume\"," }
    here && $1 == "\"median\":" { sub(",", "", $2); print $2; exit }' "$1"
}
equal "the format" "$(sed -n 's/^ *"format": "\(.*\)",$/\1/p' /tmp/both.json | head -n 1)" reveille-resume
for stage in freeze prepare suspend suspend_late suspend_noirq cpus_off platform cpus_on \
  resume_noirq resume_early resume complete thaw; do
  has_lines 1 "\"$stage\"" /tmp/both.json || fail "the analysis has no stage $stage"
done
for device in nvme ata1 virtio0 snd_hda_intel usb1 sd; do
  has_lines 1 "\"$device\"" /tmp/both.json || fail "the analysis has no $device"
done

# The log and the trace of one cycle are independent records of the same resume. Both include the printing
# of each device's line; they differ by what is printed between their marks.
for witness in dmesg trace; do
  reveille resume analyze --json /tmp/capture/$witness.txt >/tmp/$witness.json
done
log=$(devices_us /tmp/dmesg.json)
trace=$(devices_us /tmp/trace.json)
at_least "the devices' resume by the log, us" "$log" 1000
at_least "the devices' resume by the trace, us" "$trace" 1000
apart=$((log - trace))
[ ${apart#-} -le $((trace / 20 + 20000)) ] ||
  fail "the devices resumed in $log us by the log, and in $trace us by the trace"

# The pieces of the critical path add up to the whole resume.
sums=$(awk '$1 == "\"resume_us\":" && $2 + 0 > 0 { resume = $2 + 0 }
  $1 == "\"path\":" { here = 1 }
  $1 == "\"suspend_path\":" { here = 0 }
  here && $1 == "\"duration_us\":" { path += $2 }
  END { print resume, path }' /tmp/both.json)
equal "the sum of the critical path's pieces, us" "${sums#* }" "${sums% *}"
at_least "this sum, us" "${sums#* }" 1000

# A third record: the kernel's clock that stands still during sleep, read before and after. It also includes
# the time before the first line and after the last one, and nothing else.
both=$(awk '$1 == "\"suspend_us\":" && $2 + 0 > 0 { suspend = $2 + 0 }
  $1 == "\"resume_us\":" && $2 + 0 > 0 { resume = $2 + 0 }
  END { print suspend + resume }' /tmp/both.json)
awake=$(captured awake_us)
# A leap of the timestamps that is too small to be detected is 50 ms at most.
[ "$both" -le $((awake + 60000)) ] ||
  fail "suspend and resume take $both us, and the clock went on by $awake us"
[ $((awake - both)) -le $((awake / 4 + 100000)) ] ||
  fail "suspend and resume take $both us, and the clock went on by $awake us"
