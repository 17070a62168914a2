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
# A user may not end it.
run 1 as_user systemctl stop reveille
is active active
