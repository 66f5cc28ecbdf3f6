#!/bin/bash
# cifar at local (workstation): 1 node x 2 tasks = 2 ranks
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
begin local walltime=1800

# --- Environment
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD OMP_PLACES OMP_PROC_BIND KMP_AFFINITY
export PATH=/opt/hpc/bin:"$PATH"
check 'setting PATH'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=4
export HPCLAUNCH_WORLD_SIZE=2
export HPCLAUNCH_EXPECT_GPU=0
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" # mpirun warns if a variable that it passes on is not set
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages tensorflow /opt/hpc/bin/python mpirun

rank() { # what every rank runs
  set_rank 2 "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}" "${OMPI_COMM_WORLD_LOCAL_RANK-}"
  rank_log "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}"
  /opt/hpc/bin/python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=2.0 --default=decay=cosine \
    --strategy=multiworker
}

set_legacy_keras /opt/hpc/bin/python # exports TF_USE_LEGACY_KERAS
set_workers 2
launch mpirun -np 2 --map-by ppr:2:node --bind-to none -x PATH -x LD_LIBRARY_PATH -x HPCLAUNCH_RUN_DIR -x \
  HPCLAUNCH_EXIT_FILE -x HPCLAUNCH_CHECKPOINT_DIR -x HPCLAUNCH_RESTART_COUNT -x HPCLAUNCH_START -x \
  MASTER_ADDR -x MASTER_PORT -x PYTHONUNBUFFERED -x OMP_NUM_THREADS -x HPCLAUNCH_WORLD_SIZE -x \
  HPCLAUNCH_EXPECT_GPU -x HPCLAUNCH_WORKERS -x TF_USE_LEGACY_KERAS
finish
