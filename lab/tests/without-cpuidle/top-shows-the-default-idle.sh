. ./assert.sh

begin reveille top --json --interval 1s
prints '"name":"default_idle","index":1,"counted_by":"trace","share_percent":[1-9]'
prints '"wake_latency":{"count":[1-9]'
prints 'no cpuidle driver'
kill -s TERM "$begun"
ends 0
run 0 reveille top --csv --count 1 --interval 1s
contains "top --csv" '^time_unix_s,what,unit,name,command,figure,value$' "$output"
contains "top --csv" ',state,CPU 1,default_idle,,share_percent,' "$output"
