. ./assert.sh

up_or_over() {
  [ -S /tmp/socket ] || grep -q '^reveille: ' /tmp/begun
}

ways=$(reveille anticipate --ready no-such-way 2>&1 | sed -n 's/.*not a way to be ready: //p' | tr -d ',')
at_least "the ways to be ready ($ways)" "$(echo "$ways" | wc -w)" 3
make_disk slow 2000000
for way in $ways; do
  begin reveille anticipate --socket /tmp/socket --device slow --ready "$way" --budget 100% --json
  wait_for 120 up_or_over
  # A feature that this kernel lacks is reported in one line.
  if [ ! -S /tmp/socket ]; then
    ends 3
    equal "the lines of output ($way)" "$(wc -l </tmp/begun)" 1
    continue
  fi
  reads slow 100
  kill -s TERM "$begun"
  ends 0
  at_least "reads for which the CPU was woken ($way)" "$(woken_for slow read)" 1
  adds_up slow read
done
