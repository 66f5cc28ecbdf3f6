#!/bin/bash
# cifar at local (workstation): 4 nodes x 2 tasks = 8 ranks
# Rendered by hpclaunch 1.2.3 at 2026-01-02T03:04:05Z for the run directory
#   /home/ada/project/runs/train-20260102-030405-abcd
# There is no scheduler here. Run it by hand with: bash FILE

set -o pipefail
export HPCLAUNCH_RUN_DIR=/home/ada/project/runs/train-20260102-030405-abcd
job="${SUBMITIT_LOCAL_JOB_ID:-by-hand-$$}"
# An MPI program or a Slurm job that this script was started from must not pass for its own.
for name in "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" "${!OMPI_COMM_@}" "${!OMPI_MCA_@}" "${!HOROVOD_@}"; do
  unset "$name"
done
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
attempt="$HPCLAUNCH_RUN_DIR/attempts/$job.${SLURM_RESTART_COUNT:-0}"
export HPCLAUNCH_CHECKPOINT_DIR="$HPCLAUNCH_RUN_DIR/checkpoints"
mkdir -p "$attempt" "$HPCLAUNCH_CHECKPOINT_DIR" "$HPCLAUNCH_RUN_DIR/logs" 2> /dev/null || stop "the run directory $HPCLAUNCH_RUN_DIR cannot be written on $HOSTNAME"
trap 'printf "%s\n" "$?" > "$attempt/exit-code"' EXIT
date -u +%Y-%m-%dT%H:%M:%SZ > "$attempt/started"
export HPCLAUNCH_EXIT_FILE="$attempt/first-failure"
starts=$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started | wc -l)
export HPCLAUNCH_RESTART_COUNT=$((starts - 1))

# --- environment
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD OMP_PLACES OMP_PROC_BIND KMP_AFFINITY
export PATH=/opt/hpc/bin:"$PATH"
check 'setting PATH'
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=1
export CUDA_VISIBLE_DEVICES=''
export HPCLAUNCH_WORLD_SIZE=8
export HPCLAUNCH_EXPECT_GPU=0
cd /home/ada/project/runs/train-20260102-030405-abcd || stop 'the folder /home/ada/project/runs/train-20260102-030405-abcd is not there'
need /opt/hpc/bin/python
need horovodrun

# --- what every rank runs; the first rank to fail leaves its exit code
IFS= read -r -d '' rank <<'END_OF_RANK'
trap : TERM USR1 USR2 # the program gets these too; this shell waits for it to end
number=${HOROVOD_RANK-}
if [ -n "$number" ]; then # what this rank says goes to the job's log, and to a file of its own as well
  exec > >(trap '' HUP INT TERM USR1 USR2; exec tee -a "$HPCLAUNCH_RUN_DIR/logs/rank-$number.out") 2>&1
  copier=$!
fi
/opt/hpc/bin/python /home/ada/project/runs/train-20260102-030405-abcd/code/train.py
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
trap 'interrupted=yes; kill -s TERM "$launcher" 2> /dev/null' TERM
trap 'interrupted=yes; kill -s USR1 "$launcher" 2> /dev/null' USR1
trap 'interrupted=yes; kill -s USR2 "$launcher" 2> /dev/null' USR2
# 00:30:00 of walltime; timeout also passes signals on to all that the launcher started.
timeout --kill-after=30 1800 horovodrun --gloo -np 8 --hostfile /home/ada/project/runs/train-20260102-030405-abcd/hosts \
  bash -c "$rank" &
launcher=$!
while :; do
  interrupted=no
  wait "$launcher"
  code=$?
  [ "$interrupted" = yes ] || break
done
[ "$code" -ne 124 ] || exit 124 # timeout's word for: the walltime is over

# --- the launch's exit code is this script's; the first failing rank knows it better than its launcher
if [ -s "$HPCLAUNCH_EXIT_FILE" ]; then
  code=$(< "$HPCLAUNCH_EXIT_FILE")
fi
exit "$code"
