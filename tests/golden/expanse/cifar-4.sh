#!/bin/bash -l
# cifar at expanse (gpu): 4 nodes x 4 tasks = 16 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Found only in users' files, not on the centre's own pages: folders.purge_days
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=gpu
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=10
#SBATCH --gpus=16
#SBATCH --mem=368G
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
module load slurm
check 'module load slurm'
module load gcc/10.2.0
check 'module load gcc/10.2.0'
module load openmpi/4.1.3
check 'module load openmpi/4.1.3'
module load singularitypro
check 'module load singularitypro'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=10
export OMPI_MCA_btl=self,vader
export UCX_TLS=shm,rc,ud,dc
export UCX_NET_DEVICES=mlx5_0:1
export UCX_MAX_RNDV_RAILS=1
export PYTHONNOUSERSITE=1
export HPCLAUNCH_WORLD_SIZE=16
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" # mpirun warns if a variable that it passes on is not set
enter /home/ada/project/runs/train-20260102-030405-abcd
need singularity mpirun

rank() { # what every rank runs
  set_rank 4 "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}" "${OMPI_COMM_WORLD_LOCAL_RANK-}"
  rank_log "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}"
  check_gpus NVIDIA 1 || return 78
  singularity exec --nv --bind /home/ada/project/runs/train-20260102-030405-abcd --bind /expanse,/scratch \
    /cm/shared/apps/containers/singularity/tensorflow/tensorflow_2.15.1-openmpi-4.1.6-mofed-5.8-2.0.3.0-cuda-12.1.1-ubuntu-22.04.4-x86_64-20240316.sif \
    python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py --default=epochs=22 \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=4.4 --default=decay=cosine
}

launch mpirun -np 16 --map-by ppr:4:node --bind-to none -x PATH -x LD_LIBRARY_PATH -x HPCLAUNCH_RUN_DIR -x \
  HPCLAUNCH_EXIT_FILE -x HPCLAUNCH_CHECKPOINT_DIR -x HPCLAUNCH_RESTART_COUNT -x HPCLAUNCH_START -x \
  MASTER_ADDR -x MASTER_PORT -x PYTHONUNBUFFERED -x OMP_NUM_THREADS -x OMPI_MCA_btl -x UCX_TLS -x \
  UCX_NET_DEVICES -x UCX_MAX_RNDV_RAILS -x PYTHONNOUSERSITE -x HPCLAUNCH_WORLD_SIZE -x HPCLAUNCH_EXPECT_GPU \
  -x HPCLAUNCH_SIGNAL -x HPCLAUNCH_START_DIR
finish
