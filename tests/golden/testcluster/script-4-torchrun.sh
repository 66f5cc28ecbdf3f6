#!/bin/bash
# my-train-date at testcluster (gpu): 4 nodes x 4 tasks = 16 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=my-train-date
#SBATCH --account=m1234
#SBATCH --partition=batch
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --gpus-per-node=4
#SBATCH --time=00:30:00
#SBATCH --chdir=/home/ada/project/runs/train-20260102-030405-abcd
#SBATCH --output=/home/ada/project/runs/train-20260102-030405-abcd/logs/slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --export=NONE

# --- The functions (say, check, need, begin, launch, ...) that scripts of this version share
library=/home/ada/project/runs/train-20260102-030405-abcd/hpclaunch.sh
sha256=0000000000000000000000000000000000000000000000000000000000000000
[ "$(sha256sum 2> /dev/null < "$library")" = "$sha256  -" ] ||
  { echo "hpclaunch: the library $library is missing (a dry run makes no run directory), or its SHA-256 is not $sha256" >&2; exit 78; }
# shellcheck source=/dev/null
source "$library"
export HPCLAUNCH_RUN_DIR=/home/ada/project/runs/train-20260102-030405-abcd
begin slurm pass_on=TERM

# --- Environment
export SLURM_EXPORT_ENV=ALL # else --export=NONE would keep this script's variables from the ranks, too
export PATH=/opt/hpc/bin:"$PATH"
check 'setting PATH'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=2
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1
export HPCLAUNCH_WORLD_SIZE=16
export HPCLAUNCH_EXPECT_GPU=0
enter /home/ada/project
need /opt/hpc/bin/python srun torchrun

rank() { # what every rank runs
  set_rank 4 "${RANK-}" "${LOCAL_RANK-}" "${GROUP_RANK-}"
  rank_log "${RANK-}"
  check_gpus any 1 || return 78
  # shellcheck disable=SC2016 # typed text, not code
  /opt/hpc/bin/python '/home/ada/project/runs/train-20260102-030405-abcd/code/my train $(date).py'
}

set_rendezvous
launch srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=8 --cpu-bind=none --mpi=pmix \
  --kill-on-bad-exit=1 --wait=60 torchrun --nnodes=4 --nproc_per_node=4 --rdzv_backend=c10d --no_python
finish

# testcluster provides no known PyTorch, so the ranks run its plain /opt/hpc/bin/python: hpclaunch environment make testcluster-pytorch --framework pytorch --site testcluster, then --environment testcluster-pytorch; --venv, --conda and --module name software that you have
