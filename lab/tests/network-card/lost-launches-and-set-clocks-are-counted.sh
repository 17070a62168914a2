. ./assert.sh

card() { echo "$2" >"/sys/module/card/parameters/$1"; }
measures() {
  run 0 reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --state C1 --distance 1ms..4ms --duration "$2" --out "$1"
  at_least "the datapoints" "$(datapoints "$1" source nic)" 20
  true_times "$1" /sys/kernel/debug/card/launches
}
card lose_every 10
measures /tmp/lost-launches 6s
at_least "the lost launches" "$(drops /tmp/lost-launches 'the card did not interrupt')" 3
card lose_every 0

# A reset ends the target time and sets the card's clock.
card reset_every 10
measures /tmp/reset 6s
at_least "the lost launches" "$(drops /tmp/reset 'the card did not interrupt')" 3
card reset_every 0

# Nothing of a launch is by CLOCK_REALTIME, though this kernel reads the card's clock beside that.
begin reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --state C1 --distance 1ms..4ms --duration 5s --out /tmp/set
gathers /tmp/set 10
date -s 2033-01-01 >/dev/null
sleep 1
date -s 2026-01-01 >/dev/null
ends 0
at_least "the datapoints" "$(datapoints /tmp/set source nic)" 50
true_times /tmp/set /sys/kernel/debug/card/launches
