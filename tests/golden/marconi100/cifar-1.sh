#!/bin/bash -l
# cifar at marconi100 (gpu): 1 node x 4 tasks = 4 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Found only in users' files, not on the centre's own pages: node_types.gpu.partition, node_types.gpu.request_memory, node_types.gpu.nics.count, node_types.gpu.default_tasks_per_node, partitions, gpus, launchers, frameworks.tensorflow
# Submit it by hand with: sbatch FILE. A dry run makes no run directory: hpclaunch render ... -o FILE does
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --partition=m100_usr_prod
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --gres=gpu:4
#SBATCH --mem=246000M
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
begin slurm restarts=50 restart_by=requeue restart_lead=120 pass_on=USR2 signal_to=ranks

# --- Environment
export SLURM_EXPORT_ENV=ALL # else --export=NONE would keep this script's variables from the ranks, too
module load profile/deeplrn
check 'module load profile/deeplrn'
module load autoload
check 'module load autoload'
module load cineca-ai/1.0.0
check 'module load cineca-ai/1.0.0'
# shellcheck source=/dev/null
source /cineca/prod/opt/tools/anaconda/2020.11/none/etc/profile.d/conda.sh
check 'source /cineca/prod/opt/tools/anaconda/2020.11/none/etc/profile.d/conda.sh'
conda activate "$CINECA_AI_ENV"
check $'conda activate "$CINECA_AI_ENV"'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=8
export HPCLAUNCH_WORLD_SIZE=4
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
enter /home/ada/project/runs/train-20260102-030405-abcd
need --packages tensorflow,horovod python horovodrun

rank() { # what every rank runs
  set_rank 4 "${HOROVOD_RANK-}" "${HOROVOD_LOCAL_RANK-}" "${HOROVOD_CROSS_RANK-}"
  rank_log "${HOROVOD_RANK-}"
  check_gpus NVIDIA 1 || return 78
  python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py \
    --default=scale-learning-rate=sqrt --default=warmup-epochs=2.0 --default=decay=cosine
}

set_legacy_keras python # exports TF_USE_LEGACY_KERAS
launch horovodrun --gloo -np 4 -H localhost:4
finish
