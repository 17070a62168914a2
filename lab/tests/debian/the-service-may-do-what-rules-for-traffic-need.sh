. ./package.sh

packet() {
  bash -c 'echo >/dev/udp/127.0.0.1/9'
}
is_held() {
  packet && sleep 0.1 && is_bound
}

installed
printf '[[rule]]\nname = "traffic"\nlatency = "20us"\nquiet = "5s"\nwhen.traffic.interface = "lo"\n' >>$rules
run 0 systemctl start reveille
wait_for 60 reveille govern status
equal 'the bound without traffic' "$(bound)" 0
wait_for 60 is_held
# The unit's limits hinder nothing.
equal 'its complaints' "$(journalctl --output cat _COMM=reveille "_SYSTEMD_INVOCATION_ID=$(property InvocationID)")" ''
