. ./assert.sh

run 0 reveille measure --cpu 1 --source remote --datapoints 50 --out /tmp/remote
at_least "datapoints" "$(datapoints /tmp/remote source remote)" 50
by=$(datapoints /tmp/remote woken_by | sort -u | tr '\n' ' ')
case $by in
  'interrupt ' | 'flag ' | 'flag interrupt ') ;;
  *) fail "woken by: $by" ;;
esac
