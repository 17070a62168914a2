. ./assert.sh

before=$(settings)
# under COMMAND...: starts it, and it changes settings.
under() {
  begin "$@"
  wait_for 120 grep -q 'until Ctrl-C' /tmp/begun
  [ "$(settings)" != "$before" ] || fail "\`$*\` changed nothing"
}
for flags in "limit --deepest C1" "hold --latency 0 --cpu 1"; do
  for signal in TERM HUP; do
    # shellcheck disable=SC2086 # words
    under reveille $flags
    kill -s $signal "$begun"
    ends 0
    equal "the settings after $signal" "$(settings)" "$before"
  done
  # shellcheck disable=SC2086 # words
  under reveille $flags
  kill -9 "$begun"
  ends 137
  run 0 reveille states
  equal "the settings after kill -9 and the next start" "$(settings)" "$before"
done
run 7 reveille limit --deepest C1 -- sh -c 'exit 7'
run 143 reveille limit --deepest C1 -- sh -c 'kill $$'
complains 2 "PATH" reveille limit --deepest C1 -- no-such-command
equal "the settings after commands" "$(settings)" "$before"
