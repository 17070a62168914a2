. ./assert.sh

run 0 reveille measure --cpu 1 --duration 1s --out /tmp/held
before=$(md5sum /tmp/held/*)
complains 2 "already" reveille measure --cpu 1 --duration 1s --out /tmp/held
equal "the result that was there" "$(md5sum /tmp/held/*)" "$before"
