#!/bin/bash -l
# cifar at olivia (gh200x4): 4 nodes x 4 tasks = 16 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=accel
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-node=4
#SBATCH --mem=700G
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
module load NRIS/GPU
check 'module load NRIS/GPU'
module load NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0
check 'module load NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=72
export HSA_FORCE_FINE_GRAIN_PCIE=1
export FI_MR_CACHE_MONITOR=userfaultfd
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_RDZV_PROTO=alt_read
export FI_CXI_RDZV_EAGER_SIZE=0
export FI_CXI_RDZV_THRESHOLD=0
export FI_CXI_RDZV_GET_MIN=0
export FI_CXI_DEFAULT_TX_SIZE=2048
export FI_CXI_RX_MATCH_MODE=hybrid
export NCCL_CROSS_NIC=1
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
export HPCLAUNCH_WORLD_SIZE=16
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages tensorflow,horovod python srun

rank() { # what every rank runs
  set_rank 4 "${SLURM_PROCID-}" "${SLURM_LOCALID-}" "${SLURM_NODEID-}"
  rank_log "${SLURM_PROCID-}"
  check_gpus NVIDIA 1 || return 78
  python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py --default=epochs=22 \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=4.4 --default=decay=cosine
}

set_legacy_keras python # exports TF_USE_LEGACY_KERAS
launch srun --nodes=4 --ntasks=16 --ntasks-per-node=4 --cpus-per-task=72 --kill-on-bad-exit=1 --wait=60
finish

# olivia provides no known TensorFlow with Horovod, so the ranks run its plain python: Sigma2 allows no environment that pip or conda installs directly; take its HPC-container-wrapper, or a container: hpclaunch environment make olivia-tensorflow --framework tensorflow --site olivia --make-with container --image IMAGE, then --environment olivia-tensorflow; hpclaunch submit ddp trains the same network with PyTorch
