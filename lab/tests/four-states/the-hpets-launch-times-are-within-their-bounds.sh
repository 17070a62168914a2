. ./assert.sh

# The guest's CLOCK_MONOTONIC is computed from the HPET's counter, which ticks every 10 ns. So the launch time less ten
# times the comparator is the same unknown number for every launch, and each datapoint confines it to an interval. All
# of 3000 intervals have a number in common if, and only if, each has the true one.
run 0 grep -qx hpet /sys/devices/system/clocksource/clocksource0/current_clocksource
run 0 reveille measure --cpu 1 --source hpet --state C1 --distance 500us..1ms --datapoints 3000 --out /tmp/bounds
run 0 reveille export /tmp/bounds --csv --out /tmp/bounds.csv
awk -F, '
  NR == 1 { for (at = 1; at <= NF; at++) column[$at] = at; next }
  {
    clock = $column["launch_clock"]
    # 32 bits wrap every 43 s.
    if (NR > 2 && clock < last - 2147483648) wraps++
    last = clock
    offset = $column["time_ns"] - 10 * (clock + wraps * 4294967296)
    error = $column["launch_error_ns"]
    if (NR == 2 || offset - error > low) low = offset - error
    if (NR == 2 || offset + error < high) high = offset + error
    count++
  }
  END { printf "%d launches; the offset is from %.0f to %.0f\n", count, low, high; exit !(count == 3000 && low <= high) }
' /tmp/bounds.csv >/tmp/bounds.text || fail "the bounds contradict each other: $(cat /tmp/bounds.text)"
