#!/bin/bash -l
# cifar at lonestar6 (a100): 4 nodes x 3 tasks = 12 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=gpu-a100
#SBATCH --nodes=4
#SBATCH --ntasks=12
#SBATCH --ntasks-per-node=3
#SBATCH --time=00:30:00
#SBATCH --chdir=/home/ada/project/runs/train-20260102-030405-abcd
#SBATCH --output=/home/ada/project/runs/train-20260102-030405-abcd/logs/slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR2@120

# --- The functions (say, check, need, begin, launch, ...) that scripts of this version share
library=/home/ada/project/runs/train-20260102-030405-abcd/hpclaunch.sh
sha256=0000000000000000000000000000000000000000000000000000000000000000
[ "$(sha256sum 2> /dev/null < "$library")" = "$sha256  -" ] ||
  { echo "hpclaunch: the library $library is missing (a dry run makes no run directory), or its SHA-256 is not $sha256" >&2; exit 78; }
# shellcheck source=/dev/null
source "$library"
export HPCLAUNCH_RUN_DIR=/home/ada/project/runs/train-20260102-030405-abcd
begin slurm restarts=50 restart_by=requeue restart_lead=120 pass_on=USR2

# --- Environment
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD OMP_PLACES OMP_PROC_BIND KMP_AFFINITY CUDA_VISIBLE_DEVICES
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=42
export HPCLAUNCH_WORLD_SIZE=12
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
export HPCLAUNCH_DATA_DIR=/scratch/ada/hpclaunch/data
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages tensorflow,horovod python3 ibrun

rank() { # what every rank runs
  set_rank 3 "${PMI_RANK:-${MV2_COMM_WORLD_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK-}}}}"
  rank_log "${PMI_RANK:-${MV2_COMM_WORLD_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK-}}}}"
  check_gpus NVIDIA 1 || return 78
  python3 /home/ada/project/runs/train-20260102-030405-abcd/code/train.py --default=epochs=17 \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=3.4 --default=decay=cosine
}

set_legacy_keras python3 # exports TF_USE_LEGACY_KERAS
launch_file ibrun
finish

# lonestar6 provides no known TensorFlow with Horovod, so the ranks run its plain python3: hpclaunch environment make lonestar6-tensorflow --framework tensorflow --site lonestar6, then --environment lonestar6-tensorflow; --venv, --conda and --module name software that you have
