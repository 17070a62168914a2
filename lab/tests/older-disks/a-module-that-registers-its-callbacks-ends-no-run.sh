. ./assert.sh

begin reveille measure --cpu 1 --duration 20s --out /tmp/registered
gathers /tmp/registered 1
# Its callbacks run on each CPU, as when the CPU comes and goes.
modprobe msr || fail "the guest has no module msr"
rmmod msr
ends 0
equal "how it ended" "$(described /tmp/registered disturbed)" ""
