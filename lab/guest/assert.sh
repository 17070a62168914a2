# shellcheck shell=dash
# Assertions for tests in the guest. A test is one file whose name is a sentence. It begins with
# `. ./assert.sh`, and passes if it reaches its end.
set -eu
cpus=/sys/devices/system/cpu

fail() {
  echo "failed: $*"
  exit 1
}

# This kernel or guest does not support what the test is about.
skip() {
  echo "skipped: $*"
  exit 77
}

# equal WHAT FOUND EXPECTED
equal() {
  [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"
}

# at_least WHAT FOUND MINIMUM, whole numbers
at_least() {
  [ "$2" -ge "$3" ] 2>/dev/null || fail "$1 is '$2', expected $3 or more"
}

# contains WHERE PATTERN TEXT: the text has a line that matches the basic regular expression.
contains() {
  printf '%s\n' "$3" | grep -q -- "$2" || fail "$1 does not contain '$2' but: $3"
}

# run STATUS COMMAND...: the command ends with that exit status; $output has its output.
run() {
  local expected=$1 status=0
  shift
  output=$("$@" 2>&1) || status=$?
  [ "$status" = "$expected" ] || fail "\`$*\` ended with $status, expected $expected: $output"
}

# complains STATUS PATTERN COMMAND...: the command fails with that status and one line that names the
# error (for an invalid value of a flag, clap adds the valid ones and a pointer to --help), and
# the machine's settings do not change.
complains() {
  local status=$1 wanted=$2 before lines
  before=$(settings)
  shift 2
  run "$status" "$@"
  lines=$(printf '%s\n' "$output" | grep -vc -e '^$' -e '^  \[possible values' -e "try '--help'")
  equal "the number of lines that \`$*\` prints ($output)" "$lines" 1
  contains "\`$*\`" "$wanted" "$output"
  equal "the machine after \`$*\`" "$(settings)" "$before"
}

# now: the guest's clock, s.
now() { cut -d . -f 1 /proc/uptime; }

# wait_for SECONDS COMMAND...: waits until the command succeeds. By the clock, because on a busy host
# one try may take a second.
wait_for() {
  local end=$(($(now) + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$(now)" -le $end ] || fail "timed out waiting for: $*; the background command printed: $(tail -n 5 /tmp/begun 2>/dev/null)"
    sleep 0.2
  done
}

# Every setting that reveille may change, one per line. The suite compares them before and after each test.
settings() {
  grep . $cpus/cpu*/cpuidle/state*/disable $cpus/cpu*/online \
    $cpus/cpu*/power/pm_qos_resume_latency_us $cpus/cpuidle/current_governor \
    $cpus/cpu*/cpufreq/scaling_governor \
    /proc/sys/kernel/bpf_stats_enabled /proc/sys/kernel/printk \
    /sys/power/pm_print_times /sys/power/pm_debug_messages /sys/power/mem_sleep \
    /sys/class/rtc/rtc*/wakealarm /sys/class/rtc/rtc*/device/power/wakeup \
    /proc/sys/kernel/timer_migration 2>/dev/null || true
  grep . /sys/kernel/debug/card/filter 2>/dev/null || true
  # Devices get other interrupt numbers when they resume.
  # The kernel lists the HPET's interrupt from its first use on; its tests look at it.
  [ -e /lab/devices ] || grep . /proc/irq/*/smp_affinity | grep -v /irq/16/
  for instance in /sys/kernel/tracing/instances/*/; do
    [ ! -d "$instance" ] || echo "$instance"
  done
}

# state CPU NAME: the folder of that idle state.
state() {
  for folder in "$cpus/cpu$1"/cpuidle/state*; do
    if [ "$(cat "$folder/name")" = "$2" ]; then
      echo "$folder"
      return
    fi
  done
  fail "CPU $1 has no idle state $2"
}

# disabled CPU: the names of its disabled states, in order.
disabled() {
  for folder in "$cpus/cpu$1"/cpuidle/state*; do
    [ "$(cat "$folder/disable")" = 0 ] || cat "$folder/name"
  done | tr '\n' ' ' | sed 's/ $//'
}

# datapoints RESULT COLUMN [VALUE]: that column's values in the result, or how many have the value.
datapoints() {
  reveille export "$1" --csv >/tmp/datapoints.csv 2>/tmp/export.said || fail "export $1: $(cat /tmp/export.said)"
  values=$(awk -F , -v name="$2" '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; if (!column) exit 1; next }
    { print $column }' /tmp/datapoints.csv) || fail "$1 has no column $2"
  if [ $# = 2 ]; then
    printf '%s\n' "$values"
  else
    printf '%s\n' "$values" | grep -cx -- "$3" || true
  fi
}

# described RESULT NAME: the first value of that name in result.json.
described() {
  sed -n "s/^ *\"$2\": \(.*[^,]\),*\$/\1/p" "$1/result.json" | head -n 1
}

# begin COMMAND...: starts it in the background; $begun is its process, /tmp/begun its output. A shell
# makes background commands ignore SIGINT, and reveille keeps that: tests end it by TERM or HUP.
begin() {
  # The child opens the file only when it runs: until then readers would see an earlier command's output.
  : >/tmp/begun
  "$@" >/tmp/begun 2>&1 &
  begun=$!
}
begun=''
# A failing test leaves nothing behind for the next one.
trap 'kill -9 $(jobs -p) 2>/dev/null || true; remove_disks; from_outside "hands off"' EXIT

# ends STATUS: the background command ends by itself, with that exit status.
ends() {
  local status=0
  wait "$begun" || status=$?
  [ "$status" = "$1" ] || fail "the background command ended with $status, expected $1: $(tail -n 5 /tmp/begun)"
}

# uses CPU NAME: how often that CPU has entered the idle state.
uses() { cat "$(state "$1" "$2")/usage"; }

# enters CPU NAME: the CPU enters that idle state ten times more within some time.
enters() {
  local goal=$(($(uses "$1" "$2") + 10))
  # shellcheck disable=SC2016 # the inner shell expands them
  wait_for 120 sh -c '[ "$(cat "$0")" -ge "$1" ]' "$(state "$1" "$2")/usage" "$goal"
}

# has_lines COUNT PATTERN FILE: the file has at least COUNT lines with the pattern.
has_lines() {
  [ "$(grep -c -- "$2" "$3")" -ge "$1" ]
}

# gathers RESULT COUNT [STATE]: waits until the measurement in the background has kept COUNT datapoints (of
# that state); it writes them one by one.
gathers() {
  local one='^[0-9]'
  [ -z "${3:-}" ] || one=",$3,"
  wait_for 120 has_lines "$2" "$one" "$1/datapoints.partial.csv"
}

# drops RESULT REASON: how many of its launches were dropped for that reason.
drops() {
  local found
  found=$(sed -n "s/^ *\"$2\": \([0-9]*\),*$/\1/p" "$1/result.json" | head -n 1)
  echo "${found:-0}"
}

# keeps RESULT: almost all of its launches became datapoints, except those in which the guest itself was awake, late or had
# another interrupt, which the host's load decides.
keeps() {
  local launched kept of_guest
  launched=$(($(described "$1" launched) - $(drops "$1" 'beyond the number asked for')))
  kept=$(described "$1" kept)
  of_guest=$(($(drops "$1" 'another interrupt') + $(drops "$1" 'not idle at the launch') + $(drops "$1" 'an earlier timer') + $(drops "$1" 'armed too late')))
  if [ $((kept * 100)) -lt $(((launched - of_guest) * 95)) ] || [ $((kept * 2)) -lt "$launched" ]; then
    fail "$kept of $launched launches were kept: $(sed -n '/"dropped"/,/}/p' "$1/result.json" | tr -d '\n')"
  fi
}

# true_times RESULT FILE: FILE has the card's clock and CLOCK_MONOTONIC at each instant. A datapoint confines the start
# of the run to an interval, since its times are counted from there; all of them have a number in common if each launch
# is within its error. Those of other sources have no clock.
true_times() {
  run 0 reveille export "$1" --csv --out /tmp/times.csv
  awk '
    FNR == NR { truth[$1] = $2; next }
    FNR == 1 { split($0, name, ","); for (at in name) column[name[at]] = at; next }
    {
      split($0, field, ",")
      clock = field[column["launch_clock"]]
      if (clock == "") next
      if (!(clock in truth)) { unknown++; next }
      start = truth[clock] - field[column["time_ns"]]
      error = field[column["launch_error_ns"]]
      if (!count++ || start - error > low) low = start - error
      if (count == 1 || start + error < high) high = start + error
    }
    END {
      printf "%d launches, %d unknown; the start is from %.0f to %.0f\n", count, unknown, low, high
      exit !(count && !unknown && low <= high)
    }' "$2" /tmp/times.csv >/tmp/times.text || fail "$1: the launch times contradict the card: $(cat /tmp/times.text)"
  rm /tmp/times.csv
}

# has_or_gathers RESULT STATE: the result has a datapoint of that state of CPU 1, or else a
# measurement of that state produces one: on a busy host they may be rare.
has_or_gathers() {
  [ "$(datapoints "$1" requested_state "$2")" = 0 ] || return 0
  begin reveille measure --cpu 1 --state "$2" --distance 4ms..16ms --duration 200s --out "$1-$2"
  gathers "$1-$2" 1 "$2"
  kill -s INT "$begun"
  ends 130
}

# prints PATTERN: waits until the background command prints that.
prints() {
  wait_for 120 grep -q -- "$1" /tmp/begun
}

# limited_to CPU NAMES: exactly these states of the CPU are disabled.
limited_to() {
  [ "$(disabled "$1")" = "$2" ]
}

nullb=/sys/kernel/config/nullb

# make_disk NAME NS: creates a disk of null_blk, /dev/NAME, with requests of that duration.
make_disk() {
  mkdir "$nullb/$1"
  echo 64 >"$nullb/$1/size"
  # A timer completes requests, so not at once.
  echo 2 >"$nullb/$1/irqmode"
  echo "$2" >"$nullb/$1/completion_nsec"
  echo 1 >"$nullb/$1/power"
  wait_for 60 test -b "/dev/$1"
}

# remove_disk NAME: fails its requests and removes it.
remove_disk() {
  echo 0 >"$nullb/$1/power"
  rmdir "$nullb/$1"
}

remove_disks() {
  for disk in "$nullb"/*/; do
    [ ! -d "$disk" ] || remove_disk "$(basename "$disk")"
  done
}

# reads DISK COUNT: COUNT reads of 4 KiB, one after the other, bypassing the page cache.
reads() {
  run 0 dd "if=/dev/$1" of=/dev/null bs=4k count="$2" iflag=direct
}

# anticipates ARGUMENT...: starts the engine, and waits until it works.
anticipates() {
  # A test before may have ended its engine by kill -9.
  rm -f /tmp/socket
  begin reveille anticipate --socket /tmp/socket "$@"
  # It creates the socket last.
  wait_for 120 test -S /tmp/socket
}

# programs: how many of the engine's BPF programs the kernel has.
programs() {
  grep -c '\[bpf\]' /proc/kallsyms || true
}

no_programs() {
  [ "$(programs)" = 0 ]
}

# figure DISK OPERATION NAME: that figure in the final output of the engine with --json; of the
# models the one for one request at a time. A figure below 1 is 0: the shell has only whole numbers.
figure() {
  awk -v disk="\"$1\"," -v operation="\"$2\"," -v name="\"$3\":" '
    $1 == "\"device\":" { here = $2 == disk }
    $1 == "\"operation\":" { here = here && $2 == operation }
    here && $1 == name { sub(",", "", $2); print $2 == "null" ? $2 : int($2); exit }' /tmp/begun
}

# adds_up DISK OPERATION: the outcomes of its requests add up to their number.
adds_up() {
  local refused=0 fates=0 fate
  for fate in learning crowded over_budget plan_full unattended control assisted; do
    refused=$((refused + $(figure "$1" "$2" $fate)))
  done
  equal "the sum of the requests' outcomes" "$refused" "$(figure "$1" "$2" requests)"
  for fate in in_time early late cpu_busy; do
    fates=$((fates + $(figure "$1" "$2" $fate)))
  done
  equal "the sum of the assisted requests' outcomes" "$fates" "$(figure "$1" "$2" assisted)"
}

# woken_for DISK OPERATION: requests that found the CPU ready, or came after the window: on
# a busy host the emulator may deliver interrupts to the spinning CPU late.
woken_for() {
  echo $(($(figure "$1" "$2" in_time) + $(figure "$1" "$2" late)))
}

# from_outside WHAT: lab/run does this to the guest while it sleeps: "wake in 12 s".
from_outside() {
  [ ! -e /lab/devices ] || echo "lab: $1" >/dev/ttyS1
}

# captures ARGUMENT...: starts a capture into /tmp/capture.
captures() {
  rm -rf /tmp/capture
  begin reveille resume capture --virtual-machine --out /tmp/capture "$@"
}

# captured NAME [CYCLE]: a figure of capture.json, of that cycle (default 1).
captured() {
  awk -v name="\"$1\":" -v cycle="${2:-1}" '
    $1 == name && ++seen == cycle { sub(/,$/, "", $2); print $2; exit }' /tmp/capture/capture.json
}
