# Selection is real here: what is disabled is not entered, and what is left is.
. ./assert.sh

c2=$(state 1 C2) c3=$(state 1 C3)
echo 1 >"$c3/disable"
sleep 0.2
c2_before=$(cat "$c2/usage") c3_before=$(cat "$c3/usage")
sleep 1
c2_after=$(cat "$c2/usage") c3_after=$(cat "$c3/usage")
echo 0 >"$c3/disable"
equal "entries into the disabled C3" "$((c3_after - c3_before))" 0
at_least "entries into C2" "$((c2_after - c2_before))" 10
