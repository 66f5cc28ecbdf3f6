#!/bin/bash -l
# mnist at delta (a100x4): 4 nodes x 4 tasks = 16 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Seen in users' files only, not in the centre's own pages: launchers.options.mpirun
# Submit it by hand with: sbatch FILE
#SBATCH --job-name=mnist
#SBATCH --account=m1234
#SBATCH --partition=gpuA100x4
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --mem=208G
#SBATCH --time=00:15:00
#SBATCH --chdir=/home/ada/project/runs/train-20260102-030405-abcd
#SBATCH --output=/home/ada/project/runs/train-20260102-030405-abcd/logs/slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR2@120
#SBATCH --export=NONE

set -o pipefail
export HPCLAUNCH_RUN_DIR=/home/ada/project/runs/train-20260102-030405-abcd
job="${SLURM_JOB_ID:-by-hand-$$}"
# --export=NONE kept the submitting shell out of this job; the ranks get all that is set here.
export SLURM_EXPORT_ENV=ALL
say() {
  printf 'hpclaunch: %s\n' "$1" >&2
}
stop() { # say why, and end with the exit code for a configuration error (sysexits.h)
  say "$1"
  exit 78
}
need() { # stop if a program is not there
  command -v "$1" > /dev/null || stop "there is no program $1 on $HOSTNAME: \
load its module, or set 'environment:' in the job file or the site file"
}
preempted() { # whether Slurm is taking the nodes away
  scontrol --oneliner show job "$SLURM_JOB_ID" 2> /dev/null | grep --quiet ' PreemptTime=[0-9]'
}
patiently() { # ask Slurm; where that fails ask a few times more, as its controller may be down, while the lead lasts
  local pause
  for pause in 1 2 4 8 16; do
    "$@" && return
    [ $((SECONDS + pause)) -lt "$lead_ends" ] || return
    say "$1 did not work; once more in $pause s"
    sleep "$pause"
  done
  "$@"
}
again() { # start this job again, unless it was cancelled or has been started often enough; $1: saved or preempted
  local go_on="hpclaunch resume $HPCLAUNCH_RUN_DIR goes on" state
  local lead_ends=$((${asked:-$SECONDS} + 120))
  if [ "$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started -newer "$HPCLAUNCH_RUN_DIR/job.sh" | wc -l)" -gt 50 ]; then
    say "$1; not started again: its limit is 50 restarts. $go_on"
    return
  fi
  state=$(patiently squeue --noheader --format=%T --jobs="$SLURM_JOB_ID")
  if [ "$state" != RUNNING ]; then
    say "$1; not started again, as the job is ${state:-unknown to Slurm}. $go_on"
    return
  fi
  say "$1; to be started again"
  patiently scontrol requeue "$SLURM_JOB_ID" || say "Slurm does not requeue this job. $go_on"
}
attempt="$HPCLAUNCH_RUN_DIR/attempts/$job.${SLURM_RESTART_COUNT:-0}"
export HPCLAUNCH_CHECKPOINT_DIR="$HPCLAUNCH_RUN_DIR/checkpoints"
mkdir -p "$attempt" "$HPCLAUNCH_CHECKPOINT_DIR" "$HPCLAUNCH_RUN_DIR/logs" 2> /dev/null || stop "the run directory $HPCLAUNCH_RUN_DIR cannot be written on $HOSTNAME"
trap 'printf "%s\n" "$?" > "$attempt/exit-code"' EXIT
date -u +%Y-%m-%dT%H:%M:%SZ > "$attempt/started"
export HPCLAUNCH_EXIT_FILE="$attempt/first-failure"
starts=$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started | wc -l)
export HPCLAUNCH_RESTART_COUNT=$((starts - 1))

# --- environment
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=16
export NCCL_SOCKET_IFNAME=hsn
export HPCLAUNCH_WORLD_SIZE=16
export HPCLAUNCH_EXPECT_GPU=1
export HPCLAUNCH_SIGNAL=USR2
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" # mpirun warns of a variable that it shall pass on and that is not set
cd /home/ada/project/runs/train-20260102-030405-abcd || stop 'the folder /home/ada/project/runs/train-20260102-030405-abcd is not there'
need python
need mpirun

# --- what every rank runs; the first rank to fail leaves its exit code
IFS= read -r -d '' rank <<'END_OF_RANK'
trap : TERM USR1 USR2 # the program gets these too; this shell waits for it to end
number=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK-}}}
if [ -n "$number" ]; then # what this rank says goes to the job's log, and to a file of its own as well
  exec > >(trap '' HUP INT TERM USR1 USR2; exec tee -a "$HPCLAUNCH_RUN_DIR/logs/rank-$number.out") 2>&1
  copier=$!
fi
export CUDA_VISIBLE_DEVICES=3,2,1,0
python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py
code=$?
# Any exception gives 1, also one that the end of another rank brings about: let that rank come first.
[ "$code" -ne 1 ] || [ -e "$HPCLAUNCH_EXIT_FILE" ] || sleep 3
[ "$code" -eq 0 ] || (set -o noclobber && printf '%s\n' "$code" > "$HPCLAUNCH_EXIT_FILE") 2> /dev/null
if [ -n "$number" ]; then # its last words too; a process that it left behind must not keep the rank from ending
  exec > /dev/null 2>&1
  for _ in {1..100}; do
    kill -s 0 "$copier" || break
    sleep 0.1
  done
  kill -s KILL "$copier"
fi
exit "$code"
END_OF_RANK

# --- launch; in the background, because bash runs a trap only between its foreground commands
asked= # when the ranks were asked to save, in seconds since this script began
# Any of these asks the ranks to save; mpirun passes USR2 on to them.
trap 'interrupted=yes; asked=${asked:-$SECONDS}; kill -s USR2 "$launcher" 2> /dev/null' TERM USR1 USR2
mpirun -np 16 --map-by ppr:4:node --bind-to none -mca pml ob1 -mca btl '^openib' -x PATH -x \
  LD_LIBRARY_PATH -x HPCLAUNCH_RUN_DIR -x HPCLAUNCH_EXIT_FILE -x HPCLAUNCH_CHECKPOINT_DIR -x \
  HPCLAUNCH_RESTART_COUNT -x PYTHONUNBUFFERED -x OMP_NUM_THREADS -x NCCL_SOCKET_IFNAME -x \
  HPCLAUNCH_WORLD_SIZE -x HPCLAUNCH_EXPECT_GPU -x HPCLAUNCH_SIGNAL \
  bash -c "$rank" &
launcher=$!
while :; do
  interrupted=no
  wait "$launcher"
  code=$?
  [ "$interrupted" = yes ] || break
done

# --- the launch's exit code is this script's; the first failing rank knows it better than its launcher
if [ -s "$HPCLAUNCH_EXIT_FILE" ]; then
  code=$(< "$HPCLAUNCH_EXIT_FILE")
fi
case $code in
  0) ;;
  75) again 'saved' ;; # the ranks' word for: all is saved, start me again (docs/contract.md)
  *) ! preempted || again 'preempted' ;; # what fails in its grace is not the program's own error
esac
exit "$code"
