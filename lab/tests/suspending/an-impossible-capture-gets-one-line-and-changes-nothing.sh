. ./assert.sh
capture="reveille resume capture --out /tmp/never"
# shellcheck disable=SC2086 # words of a command
{
  complains 3 'virtual machine' $capture
  complains 3 'no standby: it offers freeze, mem' $capture --virtual-machine --mode standby
  complains 2 'mem, freeze or standby' $capture --virtual-machine --mode hibernate
  complains 2 'whole seconds' $capture --virtual-machine --wake-after 1500ms
  complains 2 'from 1 to 10000' $capture --virtual-machine --repeat 0
  # Later than the clock's alarm can be set.
  complains 3 'takes no alarm' $capture --virtual-machine --wake-after 400days

  echo +1000 >/sys/class/rtc/rtc0/wakealarm
  complains 3 'rtc0 has an alarm already' $capture --virtual-machine
  echo 0 >/sys/class/rtc/rtc0/wakealarm

  echo disabled >/sys/class/rtc/rtc0/device/power/wakeup
  complains 3 'may not wake this machine' $capture --virtual-machine
  echo enabled >/sys/class/rtc/rtc0/device/power/wakeup

  mkdir -p /run/systemd/inhibit
  printf 'WHAT=sleep\nMODE=block\nWHO=Backup\nWHY=runs\n' >/run/systemd/inhibit/1
  complains 3 'Backup forbids this machine to sleep (runs)' $capture --virtual-machine
  rm -r /run/systemd

  complains 3 'run with sudo' su nobody -s /bin/sh -c "$capture --virtual-machine"
}
