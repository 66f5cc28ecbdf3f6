#!/bin/bash
# my-train-date at local (workstation): 4 nodes x 2 tasks = 8 ranks
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
begin local

# --- Environment
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD OMP_PLACES OMP_PROC_BIND KMP_AFFINITY
export PATH=/opt/hpc/bin:"$PATH"
check 'setting PATH'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=1
export HPCLAUNCH_WORLD_SIZE=8
export HPCLAUNCH_EXPECT_GPU=0
enter /home/ada/project
need /opt/hpc/bin/python

rank() { # what every rank runs
  set_rank 2 "${RANK-}" "${LOCAL_RANK-}" "${NODE_RANK-}"
  rank_log "${RANK-}"
  # shellcheck disable=SC2016 # typed text, not code
  /opt/hpc/bin/python '/home/ada/project/runs/train-20260102-030405-abcd/code/my train $(date).py'
}

launch spawn_over_ssh 4 2 /home/ada/project/runs/train-20260102-030405-abcd/hosts
finish
