. ./assert.sh

begin reveille top --json --interval 1s
prints '"name":"POLL","index":0,"counted_by":"trace","share_percent":[1-9]'
kill -s TERM "$begun"
ends 0
