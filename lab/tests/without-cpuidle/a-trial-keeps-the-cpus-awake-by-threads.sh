. ./assert.sh

run 0 reveille trial --dry-run --echo self
contains "the plan" "^no sleep  *idle-priority threads" "$output"
complains 3 "nothing honours a latency bound" reveille trial --latency 20us -- true
run 0 reveille trial --rounds 2 --settle 50ms --json -- sleep 0.5
awake=$(printf '%s\n' "$output" | sed -n 's/^ *"awake_percent": \([0-9]*\).*/\1/p' | tail -n 1)
at_least "the share of time awake under no sleep" "$awake" 90
