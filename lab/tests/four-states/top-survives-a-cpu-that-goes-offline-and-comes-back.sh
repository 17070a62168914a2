. ./assert.sh

begin reveille top --json --count 8 --interval 1s
wait_for 40 grep -q '"CPU 1"' /tmp/begun
echo 0 >"$cpus/cpu1/online"
wait_for 40 grep -q '"label":"CPU 1","kind":null,"cpus":\[1\],"online":false' /tmp/begun
echo 1 >"$cpus/cpu1/online"
ends 0
last=$(tail -n 1 /tmp/begun)
says "top's last refresh" '"label":"CPU 1","kind":null,"cpus":\[1\],"online":true' "$last"
equal "the number of lines" "$(wc -l </tmp/begun)" 8
