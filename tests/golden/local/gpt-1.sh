#!/bin/bash
# gpt at local (workstation): 1 node x 1 task = 1 rank
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# There is no scheduler here. Run it by hand with: bash FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does

# --- The functions (say, check, need, begin, launch, ...) that scripts of this version share
library=/home/ada/project/runs/train-20260102-030405-abcd/hpclaunch.sh
sha256=0000000000000000000000000000000000000000000000000000000000000000
[ "$(sha256sum 2> /dev/null < "$library")" = "$sha256  -" ] ||
  { echo "hpclaunch: the library $library is missing (a dry run makes no run directory), or its SHA-256 is not $sha256" >&2; exit 78; }
# shellcheck source=/dev/null
source "$library"
export HPCLAUNCH_RUN_DIR=/home/ada/project/runs/train-20260102-030405-abcd
begin local signal_to=group walltime=1800

# --- Environment
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD OMP_PLACES OMP_PROC_BIND KMP_AFFINITY
export PATH=/opt/hpc/bin:"$PATH"
check 'setting PATH'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=8
export HPCLAUNCH_WORLD_SIZE=1
export HPCLAUNCH_EXPECT_GPU=0
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages torch /opt/hpc/bin/python

rank() { # what every rank runs
  /opt/hpc/bin/python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py
}

launch
finish
