#!/bin/bash -l
# cifar at lumi (gpu): 1 node x 8 tasks = 8 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G
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
export MIOPEN_USER_DB_PATH="/tmp/${USER}-miopen-cache-${SLURM_JOB_ID}"
check $'export MIOPEN_USER_DB_PATH="/tmp/${USER}-miopen-cache-${SLURM_JOB_ID}"'
export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"
check $'export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=7
export NCCL_SOCKET_IFNAME=hsn
export NCCL_NET_GDR_LEVEL=3
export CXI_FORK_SAFE=1
export CXI_FORK_SAFE_HP=1
export FI_CXI_DISABLE_CQ_HUGETLB=1
export PYTHONNOUSERSITE=1
export HPCLAUNCH_WORLD_SIZE=8
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
enter /home/ada/project/runs/train-20260102-030405-abcd
need singularity srun

rank() { # what every rank runs
  set_rank 8 "${SLURM_PROCID-}" "${SLURM_LOCALID-}" "${SLURM_NODEID-}"
  rank_log "${SLURM_PROCID-}"
  check_gpus AMD 1 || return 78
  singularity exec --rocm --bind /home/ada/project/runs/train-20260102-030405-abcd -B \
    /var/spool/slurmd,/opt/cray/,/usr/lib64/libcxi.so.1 -B /pfs,/scratch,/projappl,/project,/flash,/appl \
    /appl/local/containers/easybuild-sif-images/lumi-tensorflow-rocm-6.2.0-python-3.10-tensorflow-2.16.1-horovod-0.28.1-dockerhash-8c75f24cfffc.sif \
    /opt/miniconda3/envs/tensorflow/bin/python \
    /home/ada/project/runs/train-20260102-030405-abcd/code/train.py --default=scale-learning-rate=sqrt \
    --default=warmup-epochs=2.0 --default=decay=cosine
}

launch srun --nodes=1 --ntasks=8 --ntasks-per-node=8 --cpus-per-task=7 \
  --cpu-bind=mask_cpu:fe000000000000,fe00000000000000,fe0000,fe000000,fe,fe00,fe00000000,fe0000000000 \
  --kill-on-bad-exit=1 --wait=60
finish
