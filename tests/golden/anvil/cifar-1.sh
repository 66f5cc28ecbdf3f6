#!/bin/bash -l
# cifar at anvil (gpu): 1 node x 4 tasks = 4 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
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
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=32
export HPCLAUNCH_WORLD_SIZE=4
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
export HPCLAUNCH_DATA_DIR=/scratch/ada/hpclaunch/data
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" # mpirun warns if a variable that it passes on is not set
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages tensorflow,horovod python mpirun

rank() { # what every rank runs
  set_rank 4 "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}" "${OMPI_COMM_WORLD_LOCAL_RANK-}"
  rank_log "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}"
  check_gpus NVIDIA 1 || return 78
  python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=2.0 --default=decay=cosine
}

set_legacy_keras python # exports TF_USE_LEGACY_KERAS
launch mpirun -np 4 --map-by ppr:4:node --bind-to none -mca pml ob1 -mca btl '^openib' -x PATH -x LD_LIBRARY_PATH \
  -x HPCLAUNCH_RUN_DIR -x HPCLAUNCH_EXIT_FILE -x HPCLAUNCH_CHECKPOINT_DIR -x HPCLAUNCH_RESTART_COUNT -x \
  HPCLAUNCH_START -x MASTER_ADDR -x MASTER_PORT -x PYTHONUNBUFFERED -x OMP_NUM_THREADS -x \
  HPCLAUNCH_WORLD_SIZE -x HPCLAUNCH_EXPECT_GPU -x HPCLAUNCH_SIGNAL -x HPCLAUNCH_DATA_DIR -x \
  HPCLAUNCH_START_DIR -x TF_USE_LEGACY_KERAS
finish

# anvil provides no known TensorFlow with Horovod, so the ranks run its plain python: hpclaunch environment make anvil-tensorflow --framework tensorflow --site anvil, then --environment anvil-tensorflow; --venv, --conda and --module name software that you have
