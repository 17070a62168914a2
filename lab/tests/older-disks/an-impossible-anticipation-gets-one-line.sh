. ./assert.sh

complains 2 "no block device no-such-disk; this machine has nvme0n1, vda" \
  reveille anticipate --device no-such-disk
complains 2 "no process 99999" reveille anticipate --pid 99999
complains 3 "root" su nobody -s /bin/sh -c "reveille anticipate --duration 1s"
anticipates --device vda
complains 3 "no-socket" reveille anticipate --device vda --socket /tmp/socket
kill -s TERM "$begun"
ends 0
equal "BPF programs left" "$(programs)" 0
