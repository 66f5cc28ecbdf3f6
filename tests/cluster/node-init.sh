#!/bin/sh
# Runs inside a node's fresh network, mount and UTS namespaces, makes them look like a machine of its own, and becomes
# its slurmd. Usage: node-init.sh NODE ROOT [SHARED]
set -eu
node=$1
root=$2
shared=${3:-}
cd /
echo "$node" > /proc/sys/kernel/hostname
# Without a private /tmp the PMIx servers of two nodes fall over each other's directories.
if [ -n "$shared" ]; then # a checkout below /tmp, which would be hidden
  mkdir -p "$root/nodes/$node$shared"
  mount --bind "$shared" "$root/nodes/$node$shared"
fi
mount --rbind "$root/nodes/$node/tmp" /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
mount --bind "$root/etc/hosts" /etc/hosts
# Jobs with --export=NONE find the configuration without SLURM_CONF.
mount --bind "$root/etc" /etc/slurm
exec slurmd -D -N "$node" -f "$root/etc/slurm.conf"
