. ./assert.sh

run 0 reveille measure --cpu 1 --source timer,remote,hpet --state C1 --duration 12s --distance 3ms..8ms --out /tmp/sources
sources=$(datapoints /tmp/sources source | sort -u | tr '\n' ' ')
equal "the sources" "$sources" "hpet remote timer "
# Twenty rounds, as a multiple of three.
equal "the rounds" "$(datapoints /tmp/sources round | sort -u | wc -l)" 21
turns=$(datapoints /tmp/sources source | uniq | wc -l)
at_least "the turns" "$turns" 40
contains "the summary" '^Sources against each other$' "$output"
for pair in 'timer *remote' 'timer *hpet' 'remote *hpet'; do
  contains "the summary" "^C1 *$pair " "$output"
done
contains "the page" '<section id="sources"' "$(cat /tmp/sources/report.html)"
contains "the costs" '"switching to another source"' "$(cat /tmp/sources/result.json)"
contains "what is shown again" '^Sources against each other$' "$(reveille show /tmp/sources)"
