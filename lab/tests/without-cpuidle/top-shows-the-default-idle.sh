. ./assert.sh

begin reveille top --json --interval 1s
said '"name":"default_idle","index":1,"counted_by":"trace","share_percent":[1-9]'
said '"wake_latency":{"count":[1-9]'
said 'no cpuidle driver'
kill -s TERM "$begun"
ends 0
run 0 reveille top --csv --count 1 --interval 1s
says "top --csv" '^time_unix_s,what,unit,name,command,figure,value$' "$output"
says "top --csv" ',state,CPU 1,default_idle,,share_percent,' "$output"
