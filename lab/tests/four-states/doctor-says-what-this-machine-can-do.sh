. ./assert.sh

run 0 reveille doctor
for word in BTF acpi_idle menu RAPL; do says "reveille doctor" "$word" "$output"; done
run 0 reveille doctor --json
says "doctor --json" '^{' "$output"
