#!/bin/bash -l
# cifar at perlmutter (cpu): 1 node x 1 task = 1 rank
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Found only in users' files, not on the centre's own pages: frameworks, qos.regular.max_walltime, folders.runs, folders.data
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --qos=regular
#SBATCH --constraint=cpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=256
#SBATCH --time=00:30:00
#SBATCH --chdir=/home/ada/project/runs/train-20260102-030405-abcd
#SBATCH --output=/home/ada/project/runs/train-20260102-030405-abcd/logs/slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR2@120
#SBATCH --export=NONE

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
export SLURM_EXPORT_ENV=ALL # else --export=NONE would keep this script's variables from the ranks, too
module load tensorflow/2.15.0
check 'module load tensorflow/2.15.0'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=128
export HDF5_USE_FILE_LOCKING=FALSE
export FI_MR_CACHE_MONITOR=userfaultfd
export HPCLAUNCH_WORLD_SIZE=1
export HPCLAUNCH_EXPECT_GPU=0
export HPCLAUNCH_SIGNAL=USR2
export HPCLAUNCH_DATA_DIR=/scratch/ada/hpclaunch/data
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages tensorflow,horovod python srun

rank() { # what every rank runs
  python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py
}

set_legacy_keras python # exports TF_USE_LEGACY_KERAS
launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=256 --cpu-bind=cores --kill-on-bad-exit=1 \
  --wait=60
finish
