. ./package.sh

runs_again() {
  [ "$(property MainPID)" != 0 ] && [ "$(property MainPID)" != "$killed" ]
}

installed
write_rule
run 0 systemctl start reveille
wait_for 60 is_bound
killed=$(property MainPID)
kill -9 "$killed"
wait_for 60 runs_again
wait_for 60 is_bound
# Without another start only the unit can restore.
mkdir -p /run/systemd/system/reveille.service.d
printf '[Service]\nRestart=no\n' >/run/systemd/system/reveille.service.d/once.conf
run 0 systemctl daemon-reload
kill -9 "$(property MainPID)"
wait_for 60 systemctl is-failed reveille
equal 'the bound' "$(bound)" 0
rm -r /run/systemd/system/reveille.service.d
run 0 systemctl daemon-reload
# Another start does not change wrong rules.
echo 'x = [' >>$rules
run 0 systemctl reset-failed reveille
run 1 systemctl start reveille
wait_for 60 systemctl is-failed reveille
equal 'its starts' "$(property NRestarts)" 0
contains 'its log' 'govern.toml: line ' "$(journalctl --unit reveille --output cat)"
