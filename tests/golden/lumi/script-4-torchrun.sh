#!/bin/bash -l
# my-train-date at lumi (gpu): 4 nodes x 8 tasks = 32 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=my-train-date
#SBATCH --account=m1234
#SBATCH --partition=standard-g
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G
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
export MIOPEN_USER_DB_PATH="/tmp/${USER}-miopen-cache-${SLURM_JOB_ID}"
check $'export MIOPEN_USER_DB_PATH="/tmp/${USER}-miopen-cache-${SLURM_JOB_ID}"'
export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"
check $'export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"'
module use /appl/local/laifs/modules
check 'module use /appl/local/laifs/modules'
module load lumi-aif-singularity-bindings
check 'module load lumi-aif-singularity-bindings'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=7
export NCCL_SOCKET_IFNAME=hsn
export NCCL_NET_GDR_LEVEL=3
export CXI_FORK_SAFE=1
export CXI_FORK_SAFE_HP=1
export FI_CXI_DISABLE_CQ_HUGETLB=1
export PYTHONNOUSERSITE=1
export HPCLAUNCH_WORLD_SIZE=32
export HPCLAUNCH_EXPECT_GPU=1
enter /home/ada/project
need singularity srun

rank() { # what every rank runs
  set_rank 8 "${RANK-}" "${LOCAL_RANK-}" "${GROUP_RANK-}"
  rank_log "${RANK-}"
  check_gpus AMD 1 || return 78
  # shellcheck disable=SC2016 # typed text, not code
  python '/home/ada/project/runs/train-20260102-030405-abcd/code/my train $(date).py'
}

set_rendezvous
launch srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=56 --cpu-bind=none --kill-on-bad-exit=1 \
  --wait=60 singularity exec --rocm --bind /home/ada/project/runs/train-20260102-030405-abcd --bind \
  /home/ada/project -B /var/spool/slurmd,/opt/cray/,/usr/lib64/libcxi.so.1 -B \
  /pfs,/scratch,/projappl,/project,/flash,/appl \
  /appl/local/laifs/containers/lumi-multitorch-u24r70f21m50t210-20260415_130625/lumi-multitorch-full-u24r70f21m50t210-20260415_130625.sif \
  torchrun --nnodes=4 --nproc_per_node=8 --rdzv_backend=c10d --no_python
finish
