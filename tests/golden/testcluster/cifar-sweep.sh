#!/bin/bash
# cifar at testcluster (gpu): 1 node x 4 tasks = 4 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# A job array of 40 runs, each in its own folder there; the file values lists their parameters, one line per run:
#   learning_rate: 0.1, 0.01
#   seed: 1, 2, 3, 4, 5, 6, …, 10 (10 values)
#   stage_to: "", /tmp/$USER
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=batch
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --gpus-per-node=4
#SBATCH --time=00:30:00
#SBATCH --array=0-39%4
#SBATCH --chdir=/home/ada/project/runs/train-20260102-030405-abcd
#SBATCH --output=/home/ada/project/runs/train-20260102-030405-abcd/logs/slurm-%A_%a.out
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
export HPCLAUNCH_ARRAY_DIR=/home/ada/project/runs/train-20260102-030405-abcd
array_task 4 SLURM_ARRAY_TASK_ID
begin slurm restarts=50 restart_by=requeue restart_lead=120 pass_on=USR2

# --- Environment
export SLURM_EXPORT_ENV=ALL # else --export=NONE would keep this script's variables from the ranks, too
export PATH=/opt/hpc/bin:"$PATH"
check 'setting PATH'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=2
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1
export HPCLAUNCH_WORLD_SIZE=4
export HPCLAUNCH_EXPECT_GPU=0
export HPCLAUNCH_SIGNAL=USR2
enter "$HPCLAUNCH_RUN_DIR"
need --packages tensorflow,horovod /opt/hpc/bin/python srun

rank() { # what every rank runs
  set_rank 4 "${SLURM_PROCID-}" "${SLURM_LOCALID-}" "${SLURM_NODEID-}"
  rank_log "${SLURM_PROCID-}"
  check_gpus any 1 || return 78
  local own=()
  own_words
  /opt/hpc/bin/python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=2.0 --default=decay=cosine "${own[@]}"
}

set_legacy_keras /opt/hpc/bin/python # exports TF_USE_LEGACY_KERAS
launch srun --nodes=1 --ntasks=4 --ntasks-per-node=4 --cpus-per-task=2 --mpi=pmix --kill-on-bad-exit=1 --wait=60
finish

# testcluster provides no known TensorFlow with Horovod, so the ranks run its plain /opt/hpc/bin/python: hpclaunch environment make testcluster-tensorflow --framework tensorflow --site testcluster, then --environment testcluster-tensorflow; --venv, --conda and --module name software that you have
