. ./assert.sh

run 0 reveille top --json --count 2 --interval 2s
last=$(printf '%s\n' "$output" | tail -n 1)
says "top" '"name":"POLL","index":0,"counted_by":"trace","share_percent":[1-9]' "$last"
