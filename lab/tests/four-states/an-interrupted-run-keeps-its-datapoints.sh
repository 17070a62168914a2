. ./assert.sh

for signal in TERM HUP; do
  result=/tmp/interrupted-$signal
  begin reveille measure --cpu 1 --state C2 --duration 60s --out "$result"
  wait_for 120 limited_to 1 C3
  gathers "$result" 1
  kill -s "$signal" "$begun"
  ends 130
  equal "CPU 1's disabled states after $signal" "$(disabled 1)" ""
  equal "how it ended" "$(described "$result" ended)" '"interrupted"'
  at_least "datapoints kept after $signal" "$(datapoints "$result" cpu 1)" 1
done
