. ./package.sh

installed
is enabled disabled
is active inactive
# Without a rule it runs, and holds nothing.
run 0 systemctl enable --now reveille
is enabled enabled
is active active
wait_for 60 reveille govern status
equal 'the bound' "$(bound)" 0
# A rule is in force after `reload`, and no longer after `stop`.
write_rule
run 0 systemctl reload reveille
wait_for 60 is_bound
run 0 systemctl stop reveille
is active inactive
equal 'the bound' "$(bound)" 0
