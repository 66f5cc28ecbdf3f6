#!/bin/bash -l
# gpt at frontier (gpu): 1 node x 8 tasks = 8 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=gpt
#SBATCH --account=m1234
#SBATCH --partition=batch
#SBATCH --nodes=1
#SBATCH --time=00:30:00
#SBATCH --chdir=/home/ada/project/runs/train-20260102-030405-abcd
#SBATCH --output=/home/ada/project/runs/train-20260102-030405-abcd/logs/slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR2@120
#SBATCH --export=NONE
#SBATCH --network=disable_rdzv_get

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
export OMP_NUM_THREADS=7
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_CROSS_NIC=1
export HSA_FORCE_FINE_GRAIN_PCIE=1
export FI_MR_CACHE_MONITOR=kdreg2
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=2048
export FI_CXI_RX_MATCH_MODE=hybrid
export FI_CXI_RDZV_PROTO=alt_read
export FI_CXI_RDZV_EAGER_SIZE=0
export FI_CXI_RDZV_THRESHOLD=0
export FI_CXI_RDZV_GET_MIN=0
export MIOPEN_USER_DB_PATH=/tmp/my-miopen-cache
export MIOPEN_CUSTOM_CACHE_DIR=/tmp/my-miopen-cache
export HPCLAUNCH_WORLD_SIZE=8
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages torch python srun

rank() { # what every rank runs
  set_rank 8 "${SLURM_PROCID-}" "${SLURM_LOCALID-}" "${SLURM_NODEID-}"
  rank_log "${SLURM_PROCID-}"
  export ROCR_VISIBLE_DEVICES=4,5,2,3,6,7,0,1
  check_gpus AMD 1 || return 78
  python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=0.2 --default=decay=cosine \
    --default=precision=bfloat16
}

launch srun --nodes=1 --ntasks=8 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-task=1 --gpu-bind=none \
  --kill-on-bad-exit=1 --wait=60
finish

# frontier provides no known PyTorch, so the ranks run its plain python: hpclaunch environment make frontier-pytorch --framework pytorch --site frontier --index-url URL (PyTorch's page Start Locally has that for rocm7.1), then --environment frontier-pytorch; --venv, --conda and --module name software that you have
