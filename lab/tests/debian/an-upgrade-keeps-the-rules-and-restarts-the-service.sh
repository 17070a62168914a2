. ./package.sh

installed
write_rule
run 0 systemctl start reveille
wait_for 60 is_bound
before=$(property ExecMainStartTimestampMonotonic)
with_apt install /lab/upgrade.deb
contains 'the version' '-2$' "$(version)"
contains 'the rules' always "$(cat $rules)"
is active active
[ "$(property ExecMainStartTimestampMonotonic)" -gt "$before" ] || fail 'the service was not restarted'
wait_for 60 is_bound
