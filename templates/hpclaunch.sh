# shellcheck shell=bash
# The functions of every script that hpclaunch renders: one file for all sites, schedulers and launchers. The script
# (job.sh) says what differs, and calls begin, launch and finish. Needs bash 4.2 and Linux. To change one function,
# define it again in the script, below the line that reads this file (docs/settings.md).

set -o pipefail
restarts=0         # how often the script may start its job again
restart_by=none    # by what: requeue, resubmit (a successor), none
restart_lead=0     # seconds from the signal that asks the ranks to save to the end of the walltime
pass_on=           # the signal that is passed on, whichever comes; empty: the one that came
signal_to=launcher # who gets it: the launcher, for all ranks; group: all that was started; ranks: each, if all are here
walltime=0         # seconds after which the script ends its ranks, where no scheduler does; 0: never
asked=             # when the first signal came, in seconds since the script began
lead_ends=         # until when, in such seconds, a scheduler is asked again; empty: for a minute

# --- Messages and checks

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
  local program
  for program in "$@"; do
    command -v "$program" > /dev/null || stop "there is no program $program on $HOSTNAME: \
load its module, or set 'environment:' in the job file or the site file"
  done
}

enter() { # work in this folder
  cd "$1" || stop "the folder $1 is not there"
}

secret() { # secret FOLDER/NAME: export the variable NAME, from the environment or from that file; it is written nowhere
  local file=$1 name=${1##*/} mode
  if [ -z "${!name-}" ]; then
    [ -r "$file" ] || stop "$name is not set on $HOSTNAME, and there is no file $file that holds it"
    mode=$(stat --dereference --format=%a "$file")
    [[ "$mode" == [46]00 ]] || stop "$file can be read by others (mode $mode): chmod 600 it"
    IFS= read -r "${name?}" < "$file"
    [ -n "${!name-}" ] || stop "$file is empty"
  fi
  export "${name?}"
}

# --- The start of a run

begin() { # begin SCHEDULER [SETTING=VALUE...]: claim the run directory, and leave the marks that hpclaunch looks for
  local starts
  scheduler=$1
  [ $# -eq 1 ] || declare -g "${@:2}"
  restart=0
  "${scheduler}_job"
  start="$job.$restart"
  attempt="$HPCLAUNCH_RUN_DIR/attempts/$start"
  claim
  export HPCLAUNCH_CHECKPOINT_DIR="$HPCLAUNCH_RUN_DIR/checkpoints"
  mkdir -p "$attempt" "$HPCLAUNCH_CHECKPOINT_DIR" 2> /dev/null || not_writable
  trap 'printf "%s\n" "$?" > "$attempt/exit-code"' EXIT
  date -u +%Y-%m-%dT%H:%M:%SZ > "$attempt/started"
  export HPCLAUNCH_EXIT_FILE="$attempt/first-failure"
  starts=$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started | wc -l)
  export HPCLAUNCH_RESTART_COUNT=$((starts - 1))
}

not_writable() {
  stop "the run directory $HPCLAUNCH_RUN_DIR cannot be written on $HOSTNAME"
}

array_task() { # array_task DIGITS VARIABLE: which run of the array this is, its folder, its own words; none is code
  local index=${!2-} name lines
  [ -n "$index" ] || stop "this is a job array, and $2 does not say which of its runs: give it to the scheduler"
  printf -v name "%0$1d" "$index"
  mapfile -t -s "$index" -n 1 lines < "$HPCLAUNCH_ARRAY_DIR/values"
  [[ "${lines[0]-}" == "$name"$'\t'* ]] ||
    stop "line $((index + 1)) of $HPCLAUNCH_ARRAY_DIR/values is not that of run $name"
  export HPCLAUNCH_RUN_DIR="$HPCLAUNCH_ARRAY_DIR/$name"
  export HPCLAUNCH_SWEPT="${lines[0]#*$'\t'}"
  say "run $name: ${HPCLAUNCH_SWEPT//$'\t'/ }"
}

# --- Claims: a run directory is worked in by one start at a time, and by none after it completed.
# Every start leaves claims/1, claims/2, ... with one line: START HOST PROCESS BEGAN. The newest has the directory.
# No claim is ever changed or removed, so two starts that find the same one ended cannot both follow it.

claim() { # take the run directory, or stop
  local claims="$HPCLAUNCH_RUN_DIR/claims" number=0 mine
  mkdir -p "$claims" 2> /dev/null || not_writable
  mine="$start $HOSTNAME $$ $(began_at $$)"
  while :; do
    while [ -e "$claims/$((number + 1))" ]; do
      number=$((number + 1))
    done
    [ "$number" -eq 0 ] || may_follow "$(text_of "$claims/$number")"
    leave_claim "$claims/$((number + 1))" "$mine"
    [ "$(text_of "$claims/$((number + 1))")" != "$mine" ] || return 0
    [ -e "$claims/$((number + 1))" ] || not_writable
  done
}

text_of() { # the first line of a small file; nothing where there is none
  local line=''
  { read -r line < "$1"; } 2> /dev/null
  printf '%s' "$line"
}

leave_claim() { # leave_claim FILE TEXT: whole, and only where there is none; on NFS and Lustre, too, one link wins
  local draft="${1%/*}/.$start.$HOSTNAME.$$.$RANDOM$RANDOM" # its own: process numbers repeat in containers
  printf '%s\n' "$2" 2> /dev/null > "$draft" || not_writable
  # Some file systems know no links.
  ln "$draft" "$1" 2> /dev/null || (set -o noclobber && cat "$draft" > "$1") 2> /dev/null
  rm -f "$draft"
}

may_follow() { # may_follow CLAIM: stop, unless that start has ended and has not completed the run
  local named host process began holder next code state
  read -r named host process began <<< "$1"
  [ "$named" != free ] || return 0 # hpclaunch knows that the job before has ended, and starts the run again
  [ -n "$named" ] || refuse 'of an empty claim' UNKNOWN
  holder=${named%.*}
  code=$(text_of "$HPCLAUNCH_RUN_DIR/attempts/$named/exit-code")
  next=$(text_of "$HPCLAUNCH_RUN_DIR/attempts/$named/next-job")
  next=${next%%;*} # sbatch --parsable adds the cluster after a semicolon
  if [ -n "$next" ]; then # the script of that job has submitted its successor
    [ "$next" != "$job" ] || return 0
    state=$("${scheduler}_state" "$next" 75)
    code=
    holder=$next
  elif [ "$holder" = "$job" ]; then # this job: queued when hpclaunch left the claim, or requeued since
    [ "$named" = "$start" ] || return 0
    state= # or two starts in one allocation, or a number that the scheduler gives again
    [ "$host" != "$HOSTNAME" ] || state=$(state_of_process "$host" "$process" "$began" "$named")
  elif [[ "$holder" == by-hand-* ]]; then
    state=$(state_of_process "$host" "$process" "$began" "$named")
  else
    state=$("${scheduler}_state" "$holder" "$code" "$host" "$process" "$began" "$named")
  fi
  case $state in
    '' | BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) ;;
    *) refuse "$holder" "$state" ;;
  esac
  [ "$code" != 0 ] || refuse "$holder" COMPLETED
}

refuse() { # refuse JOB STATE: stop, because of the job that has the run directory
  local place
  printf -v place %q "$HPCLAUNCH_RUN_DIR"
  case $2 in
    COMPLETED) stop "nothing was started: job $1 has completed this run. See hpclaunch results $place; \
hpclaunch submit makes a new run. To start this one again all the same: rm -r $place/claims" ;;
    UNKNOWN) stop "nothing was started: job $1 has this run directory, and it is not known whether it has ended. \
If it has: rm -r $place/claims, and start this script again" ;;
    *) stop "nothing was started: job $1 has this run directory and is $2. See hpclaunch status $place; \
hpclaunch cancel $place ends it" ;;
  esac
}

state_of_process() { # state_of_process HOST PROCESS BEGAN START: RUNNING while it, or what that start left, lives here
  if [ "$1" != "$HOSTNAME" ]; then
    printf UNKNOWN
  elif [ "$(began_at "$2")" = "$3" ] ||
    [ -n "$(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_RUN_DIR/attempts/$4/first-failure")" ]; then
    printf RUNNING
  fi
}

began_at() { # when a process began, in clock ticks of the machine (/proc/PID/stat, field 22); nothing if it has ended
  local stat fields
  { IFS= read -r stat < "/proc/$1/stat"; } 2> /dev/null || return
  read -r -a fields <<< "${stat##*) }"
  [ "${fields[0]}" = Z ] || printf '%s' "${fields[19]}"
}

processes_with() { # processes_with NAME VALUE: the processes here that began with that variable, whoever started them
  local process
  env -u "$1" LC_ALL=C \
    grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings "$1=$2" /proc/[0-9]*/environ |
    while IFS=/ read -r _ _ process _; do
      echo "$process"
    done
}

# --- What every rank runs: these functions and the script's own, rank, are sent to it

rank_program() { # the text that the shell of every rank runs
  declare -f rank run_rank rank_log end_rank_log own_words mark_rank
  [ "$signal_to" != ranks ] || echo mark_rank
  echo run_rank
}

mark_rank() { # leave a variable by which the script knows the processes of ranks
  export HPCLAUNCH_RANK_OF="$HPCLAUNCH_EXIT_FILE"
}

run_rank() { # run the rank; the first one to fail leaves its exit code
  local code number='' copier=''
  trap : TERM USR1 USR2 # the program gets these too; this shell waits for it to end
  rank
  code=$?
  # Any exception gives 1, also one that the end of another rank brings about: let that rank come first.
  [ "$code" -ne 1 ] || [ "${HPCLAUNCH_WORLD_SIZE:-1}" -eq 1 ] || [ -e "$HPCLAUNCH_EXIT_FILE" ] || sleep 3
  [ "$code" -eq 0 ] || (set -o noclobber && printf '%s\n' "$code" > "$HPCLAUNCH_EXIT_FILE") 2> /dev/null
  [ -z "$number" ] || end_rank_log
  exit "$code"
}

rank_log() { # rank_log NUMBER: what this rank says goes to the job's log, and to a file of its own as well
  number=$1
  [ -n "$number" ] || return 0
  [ -d "$HPCLAUNCH_RUN_DIR/logs" ] || mkdir -p "$HPCLAUNCH_RUN_DIR/logs"
  exec > >(trap '' HUP INT TERM USR1 USR2; exec tee -a "$HPCLAUNCH_RUN_DIR/logs/rank-$number.out") 2>&1
  copier=$!
}

end_rank_log() { # wait for its last words; a process that the rank left behind must not keep it from ending
  exec > /dev/null 2>&1
  for _ in {1..100}; do
    kill -s 0 "$copier" || break
    sleep 0.1
  done
  kill -s KILL "$copier"
}

own_words() { # put the words that this run of an array has of its own into the array own
  local i
  IFS=$'\t' read -r -a own <<< "$HPCLAUNCH_SWEPT"
  for i in "${!own[@]}"; do
    printf -v "own[i]" %b "${own[i]}" # \\ and \0nnn become the characters that they stand for, and nothing is run
  done
}

# --- Where the ranks are

list_hosts() { # list_hosts SLOTS: write the file of hosts for a launcher that reaches them by ssh
  "${scheduler}_hosts" | sed "s/\$/ slots=$1/" > "$HPCLAUNCH_RUN_DIR/hosts"
  check 'listing the hosts of the job'
}

set_rendezvous() { # say where torchrun's nodes meet: this is the first host of the job
  local digits=${job//[!0-9]/}
  export PET_RDZV_ID="$job" PET_RDZV_ENDPOINT="$HOSTNAME:$((20000 + 10#${digits:-0} % 10000))"
}

set_workers() { # set_workers TASKS_PER_NODE: say where each rank listens, by rank
  local hosts host task port
  hosts=$("${scheduler}_hosts") || exit
  port=$((10#${job//[!0-9]/} * 100)) # below the ports that the system gives out, and other ones for the next job
  HPCLAUNCH_WORKERS=
  for host in $hosts; do
    for ((task = 0; task < $1; task++)); do
      HPCLAUNCH_WORKERS+="${HPCLAUNCH_WORKERS:+,}$host:$((10000 + port++ % 20000))"
    done
  done
  export HPCLAUNCH_WORKERS
}

# --- The launch

launch() { # launch [LAUNCHER ARGUMENT...]: start the ranks and wait for their end; without a launcher it is one rank
  start_ranks "$@" bash -c "$(rank_program)"
}

launch_file() { # the same for a launcher that puts its command together as text: the rank's stands in a file
  rank_program > "$attempt/rank" || stop "$attempt/rank cannot be written"
  start_ranks "$@" bash "$attempt/rank"
}

start_ranks() { # start_ranks COMMAND...: in the background, because bash runs a trap only between foreground commands
  local clock='' interrupted
  launcher='' received='' overdue=no
  trap 'interrupted=yes; pass_signal TERM' TERM INT HUP
  trap 'interrupted=yes; pass_signal USR1' USR1
  trap 'interrupted=yes; pass_signal USR2' USR2
  trap 'interrupted=yes; end_overdue' ALRM
  start_apart "$@"
  launcher=$!
  [ -z "$received" ] || signal_ranks "$received"
  [ "$walltime" -eq 0 ] || start_clock "$walltime"
  while :; do
    interrupted=no
    wait "$launcher"
    code=$?
    [ "$interrupted" = yes ] || break
  done
  launcher='' # whatever has its number now is another process
  [ -z "$clock" ] || { kill -s KILL -- "-$clock" && wait "$clock"; } 2> /dev/null
}

start_apart() { # start a command in the background, in a process group of its own
  set -m
  "$@" < /dev/null &
  set +m
}

pass_signal() { # pass a signal on to the ranks: at once, or when they have been started
  asked=${asked:-$SECONDS}
  received=${pass_on:-$1}
  [ -z "$launcher" ] || signal_ranks "$received"
}

signal_ranks() { # signal_ranks SIGNAL
  local processes=("$launcher")
  if [ "$signal_to" = group ]; then
    processes=("-$launcher")
  elif [ "$signal_to" = ranks ]; then
    mapfile -t processes < <(processes_with HPCLAUNCH_RANK_OF "$HPCLAUNCH_EXIT_FILE")
    # Before any rank has begun its launcher can be ended; what else they might be asked comes too early.
    [ ${#processes[@]} -gt 0 ] || [ "$1" != TERM ] || processes=("$launcher")
  fi
  kill -s "$1" -- "${processes[@]}" 2> /dev/null
}

start_clock() { # send this script ALRM after so many seconds; the clock has no variables of a rank's
  start_apart env -i PATH="$PATH" bash -c "$(declare -f began_at ring); ring $1 $$ $(began_at $$)" > /dev/null 2>&1
  clock=$!
}

ring() {
  sleep "$1"
  [ "$(began_at "$2")" != "$3" ] || kill -s ALRM "$2"
}

end_overdue() { # the walltime is over: end the ranks, and after half a minute more kill what is left of them
  local left
  if [ "$overdue" = no ]; then
    overdue=yes
    signal_ranks TERM
    start_clock 30
  else
    mapfile -t left < <(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_EXIT_FILE")
    kill -s KILL -- "-$launcher" "${left[@]}" 2> /dev/null
  fi
}

finish() { # end with the launch's exit code; the first failing rank knows it better than its launcher
  "${scheduler}_finish"
  if [ "$overdue" = yes ]; then
    exit 124 # as timeout does: hpclaunch calls it TIMEOUT
  fi
  if [ -s "$HPCLAUNCH_EXIT_FILE" ]; then
    code=$(< "$HPCLAUNCH_EXIT_FILE")
  fi
  if [ "$restarts" -gt 0 ]; then
    case $code in
      0) ;;
      75) start_again saved ;; # the ranks' word for: all is saved, start me again (docs/contract.md)
      *) ! "${scheduler}_preempted" || start_again preempted ;; # what fails in its grace is not the program's own error
    esac
  fi
  exit "$code"
}

# --- Further starts by the script itself

patiently() { # ask a scheduler; where that fails ask a few times more, as it may be down, while the lead lasts
  local pause
  for pause in 1 2 4 8 16; do
    "$@" && return
    [ $((SECONDS + pause)) -lt "$lead_ends" ] || return
    say "$1 did not work; once more in $pause s"
    sleep "$pause"
  done
  "$@"
}

start_again() { # start_again saved|preempted: unless the job was cancelled, or has been started often enough
  local go_on="hpclaunch resume $HPCLAUNCH_RUN_DIR goes on" state since="$HPCLAUNCH_RUN_DIR/job.sh"
  local lead_ends=$((${asked:-$SECONDS} + restart_lead))
  if [ -n "${HPCLAUNCH_ARRAY_DIR-}" ]; then
    since="$HPCLAUNCH_RUN_DIR/resumed" # hpclaunch resume leaves it: restarts count anew
    [ -e "$since" ] || since="$HPCLAUNCH_ARRAY_DIR/job.sh"
  fi
  if [ "$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started -newer "$since" | wc -l)" -gt "$restarts" ]; then
    [ "$restarts" -eq 1 ] && state='1 restart' || state="$restarts restarts"
    say "$1; not started again: its limit is $state. $go_on"
    return
  fi
  state=$("${scheduler}_state" "$job" 75)
  if [ "$state" != RUNNING ]; then
    say "$1; not started again, as the job is ${state:-unknown to the scheduler}. $go_on"
    return
  fi
  case $restart_by in
    requeue)
      say "$1; to be started again"
      "${scheduler}_requeue" || say "the scheduler does not requeue this job. $go_on"
      ;;
    resubmit)
      say "$1; a job that goes on is submitted"
      "${scheduler}_resubmit" > "$attempt/next-job" || say "the next job could not be submitted. $go_on"
      ;;
    *) say "$1. $go_on" ;;
  esac
}

# --- What differs between schedulers: the functions of each begin with its name, and are called by it. The template of a
# further scheduler defines its own below the line that reads this file:
# NAME_job                    set job (its number here), and restart (0), where the scheduler may start it again itself
# NAME_state JOB CODE ...     print the state of a job in Slurm's words; nothing for one that has failed or is forgotten;
#                             UNKNOWN where nobody says. CODE is its exit code, if it left one; then host, process,
#                             beginning and name of the start that has the run directory
# NAME_hosts                  print the names of the job's hosts, a line each
# NAME_finish                 end what is left of a job, where the scheduler does not
# With a queue also NAME_preempted (is it taking the nodes away?), NAME_requeue (start this job again) and
# NAME_resubmit (submit job.sh as its successor, and print that job's number).

slurm_job() {
  restart=${SLURM_RESTART_COUNT:-0}
  if [ -n "${HPCLAUNCH_ARRAY_DIR-}" ]; then # not SLURM_JOB_ID: of one of its runs that is the whole array's number
    job="${SLURM_ARRAY_JOB_ID-}_${SLURM_ARRAY_TASK_ID-}"
  else
    job="${SLURM_JOB_ID:-by-hand-$$}"
  fi
}

slurm_state() {
  local answer lead_ends=${lead_ends:-$((SECONDS + 60))}
  answer=$(patiently squeue_state "$1") || answer=UNKNOWN
  if [ -z "$answer" ] && [ -z "$2" ]; then # it left no exit code either: accounting may know its end
    answer=$(sacct --noheader --allocations --parsable2 --format=State --jobs="$1" 2> /dev/null)
    [[ "$answer" == COMPLETED* ]] || answer=
  fi
  printf '%s' "${answer%%[[:space:]]*}"
}

squeue_state() { # ask squeue once; what it does not know any more has ended some minutes ago
  local answer
  answer=$(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1) ||
    case $answer in
      *'Invalid job id'*) answer= ;;
      *) return 1 ;;
    esac
  printf '%s' "$answer"
}

slurm_hosts() {
  scontrol show hostnames "$SLURM_JOB_NODELIST" || stop 'scontrol does not say which hosts this job has'
}

slurm_finish() { # Slurm ends what is left of a job
  :
}

slurm_preempted() {
  scontrol --oneliner show job "$job" 2> /dev/null | grep --quiet ' PreemptTime=[0-9]'
}

slurm_requeue() {
  patiently scontrol requeue "$job"
}

slurm_resubmit() ( # the next job must not take this one's settings for its own
  exclude=$(scontrol --oneliner show job "$job" 2> /dev/null | sed -n 's/.* ExcNodeList=\([^ (]*\).*/\1/p')
  for name in "${!SLURM_@}" "${!SBATCH_@}" "${!SRUN_@}" "${!PMI@}" "${!OMPI_@}"; do
    [ "$name" = SLURM_CONF ] || unset "$name"
  done
  sbatch --parsable --dependency="afterany:$job" ${exclude:+"--exclude=$exclude"} "$HPCLAUNCH_RUN_DIR/job.sh"
)

local_job() {
  local name
  job="${SUBMITIT_LOCAL_JOB_ID:-by-hand-$$}"
  # An MPI program or a Slurm job that this script was started from must not pass for its own.
  for name in "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" "${!OMPI_COMM_@}" "${!OMPI_MCA_@}" "${!HOROVOD_@}"; do
    unset "$name"
  done
}

local_state() { # nobody remembers jobs here: the processes tell
  state_of_process "${@:3}"
}

local_hosts() {
  if [ -e "$HPCLAUNCH_RUN_DIR/hosts" ]; then
    cut --delimiter=' ' --fields=1 "$HPCLAUNCH_RUN_DIR/hosts" || stop 'the list of hosts cannot be read'
  else
    echo localhost
  fi
}

local_finish() { # end what the ranks left behind, as Slurm would: first kindly, so that their last words are written
  local left
  mapfile -t left < <(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_EXIT_FILE")
  [ ${#left[@]} -gt 0 ] || return 0
  kill -s TERM "${left[@]}" 2> /dev/null
  for _ in {1..50}; do
    mapfile -t left < <(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_EXIT_FILE")
    [ ${#left[@]} -gt 0 ] || return 0
    sleep 0.1
  done
  kill -s KILL "${left[@]}" 2> /dev/null
}
