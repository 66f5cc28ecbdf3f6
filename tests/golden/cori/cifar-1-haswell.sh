#!/bin/bash -l
# cifar at cori (haswell): 1 node x 1 task = 1 rank
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# Submit it by hand with: sbatch FILE
#SBATCH --job-name=cifar
#SBATCH --account=m1234
#SBATCH --qos=regular
#SBATCH --constraint=haswell
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --time=00:30:00
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
check() { # stop if the command before this line failed
  local code=$?
  [ "$code" -eq 0 ] || stop "$1: failed with exit code $code"
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
mkdir -p "$attempt" "$HPCLAUNCH_CHECKPOINT_DIR" 2> /dev/null || stop "the run directory $HPCLAUNCH_RUN_DIR cannot be written on $HOSTNAME"
trap 'printf "%s\n" "$?" > "$attempt/exit-code"' EXIT
date -u +%Y-%m-%dT%H:%M:%SZ > "$attempt/started"
export HPCLAUNCH_EXIT_FILE="$attempt/first-failure"
starts=$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started | wc -l)
export HPCLAUNCH_RESTART_COUNT=$((starts - 1))

# --- environment
module load tensorflow/intel-1.13.1-py36
check 'module load tensorflow/intel-1.13.1-py36'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=32
export HDF5_USE_FILE_LOCKING=FALSE
export HPCLAUNCH_WORLD_SIZE=1
export HPCLAUNCH_EXPECT_GPU=0
export HPCLAUNCH_SIGNAL=USR2
cd /home/ada/project/runs/train-20260102-030405-abcd || stop 'the folder /home/ada/project/runs/train-20260102-030405-abcd is not there'
need python
need srun

# --- what every rank runs; the first rank to fail leaves its exit code
IFS= read -r -d '' rank <<'END_OF_RANK'
trap : TERM USR1 USR2 # the program gets these too; this shell waits for it to end
python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py
code=$?
[ "$code" -eq 0 ] || (set -o noclobber && printf '%s\n' "$code" > "$HPCLAUNCH_EXIT_FILE") 2> /dev/null
exit "$code"
END_OF_RANK

# --- launch; in the background, because bash runs a trap only between its foreground commands
asked= # when the ranks were asked to save, in seconds since this script began
# Any of these asks the ranks to save; srun passes USR2 on to them.
trap 'interrupted=yes; asked=${asked:-$SECONDS}; kill -s USR2 "$launcher" 2> /dev/null' TERM USR1 USR2
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=64 --kill-on-bad-exit=1 --wait=60 \
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
