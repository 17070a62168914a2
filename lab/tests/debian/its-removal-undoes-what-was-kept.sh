. ./package.sh

[ -n "$(version)" ] || installed
run 0 reveille limit --deepest C1 --cpu 0 --keep
equal 'the disabled states' "$(disabled 0)" 'C2 C3'
with_apt remove reveille
equal 'the disabled states' "$(disabled 0)" ''
contains 'the rules' '^# ' "$(cat $rules)"
