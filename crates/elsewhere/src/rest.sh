# Run by the other machine's sh after a connection was lost, with d, the folder of the run.
# shellcheck disable=SC2154  # before it comes a line with d
[ -d "$d" ] || { printf "\nreveille-far refused it is removed\n"; exit 1; }
p=$d/reveille
[ -x "$p" ] || p=$(command -v reveille) || exit 1
printf "\nreveille-far ready %s\n" "$d"
exec "$p" far --rest "$d"
