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
# The ranks of all nodes share this machine's few cores: one that waits must give its core away instead of spinning on it.
parameters=/etc/openmpi/openmpi-mca-params.conf
if [ -f "$parameters" ]; then
  { cat "$parameters" && printf '\nmpi_yield_when_idle = 1\n'; } > "$root/nodes/$node/openmpi-mca-params.conf"
  mount --bind "$root/nodes/$node/openmpi-mca-params.conf" "$parameters"
fi
exec slurmd -D -N "$node" -f "$root/etc/slurm.conf"
