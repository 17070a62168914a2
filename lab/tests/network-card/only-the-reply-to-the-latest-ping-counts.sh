. ./assert.sh

ip addr add 192.0.2.1/24 dev eth0 2>/dev/null || true
card() { echo "$2" >"/sys/module/card/parameters/$1"; }
measures() {
  local out=$1
  shift
  run "$@" reveille measure --cpu 1 --source reply:eth0,192.0.2.9 --state C1 --distance 1ms..4ms --duration 3s --no-report --out "$out"
}

# Lost replies are counted, and the others are measured.
card lose_answer_every 4
measures /tmp/lost 0
at_least "the lost replies" "$(drops /tmp/lost 'no reply came')" 5
at_least "the datapoints" "$(datapoints /tmp/lost source reply)" 20
true_times /tmp/lost /sys/kernel/debug/card/arrivals
card lose_answer_every 0

# The second of two equal replies is another packet.
card repeat_answer_every 1
measures /tmp/twice 0
at_least "the datapoints" "$(datapoints /tmp/twice source reply)" 20
equal "the launches that were measured twice" "$(datapoints /tmp/twice launch_clock | sort | uniq -d)" ""
true_times /tmp/twice /sys/kernel/debug/card/arrivals
card repeat_answer_every 0

# What wakes the CPU for another packet is none of its datapoints.
card others 20
measures /tmp/others 0
at_least "the datapoints" "$(datapoints /tmp/others source reply)" 5
at_least "the replies behind other packets" "$(drops /tmp/others 'another packet came with the reply')" 5
true_times /tmp/others /sys/kernel/debug/card/arrivals
card others 0

# A neighbour that falls silent ends the run, which keeps what it has, though no turn is as long as it waits.
begin reveille measure --cpu 1 --source timer,reply:eth0,192.0.2.9 --state C1 --distance 1ms..4ms --duration 100s --out /tmp/silent
reply_gathers() { has_lines 10 ',reply,' /tmp/silent/datapoints.partial.csv; }
wait_for 120 reply_gathers
card lose_answer_every 1
ends 1
card lose_answer_every 0
contains "the end" '192.0.2.9 no longer answers pings' "$(cat /tmp/begun)"
at_least "the datapoints" "$(datapoints /tmp/silent source reply)" 10
