. ./assert.sh

run 0 reveille doctor --all
for word in BTF acpi_idle menu RAPL; do contains "reveille doctor" "$word" "$output"; done
run 0 reveille doctor --json
contains "doctor --json" '^{' "$output"
