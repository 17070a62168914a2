. ./assert.sh

# How often both CPUs entered C2 and C3, and C1, a tick (4 ms) after the command began and 1 s later.
cat >/tmp/uses.sh <<'END'
uses() { cat /sys/devices/system/cpu/cpu[01]/cpuidle/state["$1"]/usage | tr '\n' ' '; }
usleep 4000
echo "deep: $(uses 23)" && echo "c1: $(uses 1)"
sleep 1
echo "deep: $(uses 23)" && echo "c1: $(uses 1)"
END
run 0 reveille limit --deepest C1 -- sh /tmp/uses.sh
# seen NAME WHEN: the script's count.
seen() { printf '%s\n' "$output" | sed -n "s/^$1: //p" | sed -n "$2p"; }
[ -n "$(seen deep 1)" ] || fail "no counts: $output"
# On a slow host each CPU may still have been in one of them, which is counted when the CPU leaves it.
sum() { awk '{ for (i = 1; i <= NF; i++) all += $i; print all }'; }
more=$(($(seen deep 2 | sum) - $(seen deep 1 | sum)))
[ $more -le 2 ] || fail "$more entries into C2 and C3 after a tick: $output"
for cpu in 1 2; do
  before=$(seen c1 1 | cut -d ' ' -f $cpu)
  at_least "entries into C1" "$(seen c1 2 | cut -d ' ' -f $cpu)" "$((before + 1))"
done
for cpu in 0 1; do equal "CPU $cpu's disabled states" "$(disabled $cpu)" ""; done
