. ./assert.sh

run 0 reveille top --json --count 2 --interval 2s
last=$(printf '%s\n' "$output" | tail -n 1)
says "top" '"name":"default_idle","index":1,"counted_by":"trace","share_percent":[1-9]' "$last"
says "top" '"wake_latency":{"count":[1-9]' "$last"
says "top's notes" 'no cpuidle driver' "$last"
run 0 reveille top --csv --count 1 --interval 1s
says "top --csv" '^time_unix_s,what,unit,name,command,figure,value$' "$output"
says "top --csv" ',state,CPU 1,default_idle,,share_percent,' "$output"
