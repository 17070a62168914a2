# shellcheck shell=dash
# For tests of the Debian package: /lab/package.deb, and the same with a higher version, /lab/upgrade.deb.
. ./assert.sh
rules=/etc/reveille/govern.toml
export DEBIAN_FRONTEND=noninteractive

# with_apt ARGUMENT...: as a user would, without questions.
with_apt() {
  run 0 apt-get -qq -y -o Dpkg::Use-Pty=0 "$@"
}

version() {
  dpkg-query -W -f '${db:Status-Status} ${Version}' reveille 2>/dev/null
}

# The package is installed as its user gets it. Installing takes long in an emulated machine, so this leaves it.
installed() {
  case $(version) in
    'installed '*-1) ;;
    *) with_apt install --allow-downgrades /lab/package.deb ;;
  esac
}

# The next test finds no rule, and a service that is off.
forget() {
  systemctl --quiet disable --now reveille || true
  systemctl reset-failed reveille || true
  [ ! -e $rules ] || sed -i '/^[^#]/d' $rules
}
trap 'forget 2>/dev/null' EXIT

# is WHAT STATE: the service is-active, is-enabled.
is() {
  equal "systemctl is-$1 reveille" "$(systemctl "is-$1" reveille 2>&1)" "$2"
}

# property NAME: of the service.
property() {
  systemctl show --property "$1" --value reveille
}

# write_rule: one that stops C2 and C3, always.
write_rule() {
  printf '[[rule]]\nname = "always"\nlatency = "20us"\n' >>$rules
}

bound() {
  cat "$cpus/cpu0/power/pm_qos_resume_latency_us"
}

is_bound() {
  [ "$(bound)" = 20 ]
}
