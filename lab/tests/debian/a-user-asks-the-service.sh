. ./package.sh

as_user() {
  setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
}

installed
write_rule
run 0 systemctl start reveille
wait_for 60 is_bound
run 0 as_user reveille govern status
contains 'the status' always "$output"
run 0 as_user busctl get-property org.freedesktop.systemd1 /org/freedesktop/systemd1/unit/reveille_2eservice \
  org.freedesktop.systemd1.Unit ActiveState
equal 'the state on D-Bus' "$output" 's "active"'
on_bus() {
  as_user busctl call org.reveille.Reveille1 /org/reveille/Reveille1 org.reveille.Reveille1 "$@"
}
run 0 on_bus EffectiveLatency u 0
equal 'the bound on D-Bus' "$output" 'i 20'
# Without a session of his own a user is asked for an administrator's password, and there is none.
run 1 on_bus HoldLatency 'susa{sv}' all 1 test 0
run 3 as_user reveille hold --via-service --latency 1us -- true
equal 'the bound' "$(bound)" 20
# shellcheck disable=SC2016  # expanded by the command
run 0 reveille hold --via-service --latency 1us -- sh -c "sleep 1; cat $cpus/cpu0/power/pm_qos_resume_latency_us"
contains 'the bound of a hold' '^1$' "$output"
wait_for 10 is_bound
# A user may not end it.
run 1 as_user systemctl stop reveille
is active active
