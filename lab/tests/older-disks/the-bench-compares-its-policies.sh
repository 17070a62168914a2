. ./assert.sh

make_disk slow 2000000
run 0 reveille anticipate bench --device slow --gaps 1ms --rounds 2 --ios 20 --turn 2s \
  --warm-up 40 --out /tmp/bench
for policy in 'as is' 'no sleep' 'anticipate'; do contains "the table" "$policy  *[0-9]" "$output"; done
[ -s /tmp/bench/bench.json ] || fail "nothing is kept"
run 0 reveille report /tmp/bench
[ -s /tmp/bench/report.html ] || fail "no page"
wait_for 60 no_programs
