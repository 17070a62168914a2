. ./assert.sh

refused() {
  local status=$1 pattern=$2 source=$3
  shift 3
  complains "$status" "$pattern" reveille measure --cpu 1 --source "$source" "$@" --datapoints 5 --out /tmp/refused
  [ ! -e /tmp/refused ] || fail "a refused run left its folder"
}
refused 2 'no network interface "eth9"' nic:eth9 --nic-pin SDP0
refused 2 'no network interface ""' nic: --nic-pin SDP0
refused 3 'has no card' nic:lo --nic-pin SDP0
refused 2 'electrical output.*--nic-pin SDP0|SDP1' nic:eth0
refused 2 'no pin "SDP7"' nic:eth0 --nic-pin SDP7
refused 2 'only one card in a run' nic:eth0,nic:eth1 --nic-pin SDP0
exec 9<>/dev/ptp0
refused 3 'is in use: .* has its clock, /dev/ptp0, open' nic:eth0 --nic-pin SDP0
exec 9<&-
echo 2 1 >/sys/class/ptp/ptp0/pins/SDP0
refused 3 'uses pin SDP0 for something else' nic:eth0 --nic-pin SDP0
# What is put out there already could not be restored.
echo 2 0 >/sys/class/ptp/ptp0/pins/SDP0
refused 3 'puts out its first channel on pin SDP0 already' nic:eth0 --nic-pin SDP0
echo 0 0 >/sys/class/ptp/ptp0/pins/SDP0
ip link set eth0 down
refused 3 'is down' nic:eth0 --nic-pin SDP0
ip link set eth0 up

# other PATTERN PARAMETER...: another card is refused.
other() {
  local pattern=$1
  shift
  rmmod card
  run 0 insmod /lab/card.ko "$@"
  ip link set eth0 up
  refused 3 "$pattern" nic:eth0 --nic-pin SDP0
}
other 'driver igb of this card (82576, 82580, i350, i354)' driver=igb pps=0
other 'driver e1000e takes no target time' driver=e1000e
other 'no copper port' driver=igc fibre=1
other 'has no pin' driver=igb pins=0
other 'no interrupt of eth0 came once at its target times' driver=igb lose_every=1
rmmod card
run 0 insmod /lab/card.ko driver=igb
ip link set eth0 up
