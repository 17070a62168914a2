. ./assert.sh

begin reveille top --json --interval 1s
wait_for 120 grep -q '"CPU 1"' /tmp/begun
echo 0 >"$cpus/cpu1/online"
wait_for 120 grep -q '"label":"CPU 1","kind":null,"cpus":\[1\],"online":false' /tmp/begun
echo 1 >"$cpus/cpu1/online"
back() { tail -n 1 /tmp/begun | grep -q '"label":"CPU 1","kind":null,"cpus":\[1\],"online":true'; }
wait_for 120 back
kill -s TERM "$begun"
ends 0
