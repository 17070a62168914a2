. ./assert.sh
before=$(settings)
captures --mode mem --wake-after 5s --repeat 2
ends 0
equal "the settings after the capture" "$(settings)" "$before"

equal "the cycles that failed" "$(grep -c '"error": "' /tmp/capture/capture.json || true)" 0
equal "the kernel's count of suspends" \
  $(($(grep -o '"success": "[0-9]*"' /tmp/capture/capture.json | tail -n 1 | tr -dc 0-9) -
    $(grep -o '"success": "[0-9]*"' /tmp/capture/capture.json | head -n 1 | tr -dc 0-9))) 2
for cycle in 1 2; do
  equal "whether the alarm woke it in cycle $cycle" "$(captured alarm_rang $cycle)" true
  # The alarm is set to five seconds or up to one more, which includes the suspend; the
  # clock that measures the sleep counts whole seconds.
  at_least "the time asleep in cycle $cycle, us" "$(captured asleep_us $cycle)" 1000000
  [ "$(captured asleep_us $cycle)" -le 8000000 ] || fail "asleep for $(captured asleep_us $cycle) us"
  equal "what was lost of the log in cycle $cycle" "$(captured log_lost $cycle)" 0
  equal "what was lost of the trace in cycle $cycle" "$(captured trace_lost $cycle)" 0
done
equal "the cycles in the log" "$(grep -c 'PM: suspend exit' /tmp/capture/dmesg.txt)" 2

# Each kind of device is in both: its driver, then its name. A device without callbacks of its own is
# only in the trace.
for device in 'nvme 0000:' 'ahci 0000:' 'sd 0:0:0:0' 'virtio-pci 0000:' 'snd_hda_intel 0000:' \
  'xhci_hcd 0000:' 'usb usb1'; do
  has_lines 2 "$device" /tmp/capture/dmesg.txt || fail "the log has no $device"
  has_lines 2 "$device" /tmp/capture/trace.txt || fail "the trace has no $device"
done
for device in 'virtio_net virtio' 'snd_hda_codec_generic hdaudio' 'usb-storage' 'usbhid'; do
  has_lines 2 "$device" /tmp/capture/trace.txt || fail "the trace has no $device"
done
