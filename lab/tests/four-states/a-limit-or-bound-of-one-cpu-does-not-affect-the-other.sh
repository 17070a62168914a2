. ./assert.sh

# stops_c3_of_cpu_1 COMMAND...: while it runs, CPU 1 does not enter C3, but CPU 0 does.
stops_c3_of_cpu_1() {
  begin "$@"
  wait_for 120 grep -q 'until Ctrl-C' /tmp/begun
  # It has left the C3 that it was in, and chosen again.
  enters 1 C2
  c3_1=$(uses 1 C3)
  sleep 1
  enters 0 C3
  enters 1 C2
  equal "entries into C3 of CPU 1 under \`$*\`" "$(($(uses 1 C3) - c3_1))" 0
  kill "$begun"
  ends 0
}
before=$(settings)
stops_c3_of_cpu_1 reveille limit --disable C3 --cpu 1
equal "the settings afterwards" "$(settings)" "$before"
stops_c3_of_cpu_1 reveille hold --latency 50us --cpu 1
equal "the settings afterwards" "$(settings)" "$before"
