. ./package.sh

# Without what changes with every package: the databases of dpkg and apt, logs and caches.
files() {
  find / -xdev \( -path /lab -o -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \) \
    -prune -o -type f -printf '%p %m %u %s %T@\n' -o -printf '%p %y %m %u %l\n' | sort
  find /run/reveille /var/lib/dpkg/info/reveille.* 2>/dev/null || true
  dpkg-query -W
}

equal 'the package' "$(version)" ''
files >/tmp/before
installed
write_rule
run 0 systemctl enable --now reveille-metrics.socket
run 0 systemctl enable --now reveille
wait_for 60 is_bound
with_apt install /lab/upgrade.deb
wait_for 60 is_bound
with_apt purge reveille
files >/tmp/after
run 0 diff /tmp/before /tmp/after
run 4 systemctl status reveille
