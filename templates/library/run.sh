# shellcheck shell=bash
# The functions that a script of hpclaunch calls. The script (job.sh) contains what differs, and calls begin, launch and
# finish. Needs bash 4.2 and Linux. To change a function, define it again in the script, below the line that reads this
# file (hpclaunch docs settings).

set -o pipefail
restarts=0         # how often the script may restart its job
restart_by=none    # how it restarts the job: requeue, resubmit (submit a successor), none
restart_lead=0     # seconds between the signal that asks the ranks to save and the end of the walltime
pass_on=           # the signal that the script passes on, whichever it gets; empty: the signal that it got
signal_to=launcher # its receiver: launcher, group (all processes of the launch), ranks (each rank, if all are here)
walltime=0         # seconds after which the script ends its ranks, if no scheduler does; 0: never
signal_by=         # a function that signals the ranks instead, if the launcher would not pass the signal on
asked=             # when the first signal came, in seconds since the script began
lead_ends=         # until when to repeat a failed call of the scheduler, in such seconds; empty: for a minute
stepped=no         # whether srun's step got SIGTERM
attempt=           # the folder of this start's marks
hpclaunch_own=     # lines that set the variables of this start again
hangs_by=          # a function that tells of a launcher that may not end although all of its ranks have
hung=no            # whether the launcher was killed, as it did not end after all ranks had
has_master=no      # whether MASTER_ADDR and MASTER_PORT are those of this start
given_master=no    # whether a person gave one of them
leads_astray=      # variables that send what the scheduler's programs do to another cluster
address_suffix=    # what a host's name has behind it where it is the address of the fast network, as at JSC
copies=()          # what is broadcast: pairs of a path, and of its copy on every node
samples=yes        # whether a sampler measures every node while its ranks run
watch_every=30     # seconds between two looks whether a later start has claimed the run directory, or the launcher hangs
ranks=             # how many ranks report their ends; empty: all of HPCLAUNCH_WORLD_SIZE
later=             # the claim of the next start; a start is superseded as soon as it exists
outlived=          # an earlier start of this job whose ranks may still live, as its node was lost
not_proven=69      # the exit code if the launcher ended with 0, and not every rank did (EX_UNAVAILABLE of sysexits.h)
not_recorded=74    # the exit code if a success cannot be recorded, as on a full disk (EX_IOERR)
# Those of a job in which this one was submitted, where the submitting shell's variables reach a job.
unset HPCLAUNCH_ARRAY_DIR HPCLAUNCH_BROADCAST HPCLAUNCH_COMPONENT HPCLAUNCH_SIGNAL HPCLAUNCH_START HPCLAUNCH_START_DIR
unset HPCLAUNCH_SWEPT HPCLAUNCH_WORKERS HPCLAUNCH_GPU_VIEW HPCLAUNCH_LOCAL_RANK HPCLAUNCH_LOCAL_WORLD_SIZE
unset MASTER_ADDR MASTER_PORT JAX_COORDINATOR_ADDRESS PET_RDZV_ENDPOINT PET_RDZV_ID
unset RANK LOCAL_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE

# --- The start of a run

stop() { # print the reason, and end with the exit code for a configuration error (sysexits.h)
  say "$1"
  exit 78
}

begin() { # begin SCHEDULER [SETTING=VALUE...]: claim the run directory, and write the markers that hpclaunch reads
  local starts
  scheduler=$1
  [ $# -eq 1 ] || declare -g "${@:2}"
  note_inherited
  watch_modules
  restart=0
  need_run_directory
  "${scheduler}_job"
  own_directory "${HPCLAUNCH_ARRAY_DIR:-$HPCLAUNCH_RUN_DIR}"
  claim
  attempt="$HPCLAUNCH_RUN_DIR/attempts/$start"
  export HPCLAUNCH_CHECKPOINT_DIR="$HPCLAUNCH_RUN_DIR/checkpoints"
  mkdir -p "$attempt/ranks" "$HPCLAUNCH_CHECKPOINT_DIR" 2> /dev/null || not_writable
  trap 'leave_exit_code "$?"' EXIT
  trap 'mark_terminated; exit 143' TERM # else bash would end with the exit code of its last command, which may be 0
  leave_mark started "$(date -u +%Y-%m-%dT%H:%M:%SZ)" || not_writable
  [ -z "$outlived" ] || "${scheduler}_skip_steps"
  export HPCLAUNCH_EXIT_FILE="$attempt/first-failure"
  if [ "$restarts" -gt 0 ]; then
    export HPCLAUNCH_START_DIR="$HPCLAUNCH_RUN_DIR/starts/$HPCLAUNCH_START"
    mkdir -p "$HPCLAUNCH_START_DIR" 2> /dev/null || not_writable
  fi
  starts=$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started | wc -l)
  export HPCLAUNCH_RESTART_COUNT=$((starts - 1))
  note_own_variables "${@:2}"
}

need_run_directory() { # stop if the run directory has no name: what is written there would be written to /
  [ -n "${HPCLAUNCH_RUN_DIR-}" ] || stop "HPCLAUNCH_RUN_DIR, which names the run directory, is empty, so nothing is \
started here. A script of hpclaunch sets it, and a launcher has to pass it on to every rank"
}

note_own_variables() { # note_own_variables [SETTING=VALUE...]: note what names this start, and its settings
  local name
  [ $# -eq 0 ] || printf -v hpclaunch_own '%q ' declare -g "$@"
  for name in scheduler job restart start attempt later outlived ranks; do
    printf -v hpclaunch_own '%s\ndeclare -g %s=%q' "$hpclaunch_own" "$name" "${!name}"
  done
  for name in HPCLAUNCH_RUN_DIR HPCLAUNCH_EXIT_FILE HPCLAUNCH_START; do
    printf -v hpclaunch_own '%s\nexport %s=%q' "$hpclaunch_own" "$name" "${!name}"
  done
}

keep_own_variables() { # set them again: a line of set-up, or a file that it reads, may have variables of these names
  eval "$hpclaunch_own"
}

# --- Modules: the function module of old versions ends with 0 whatever happens, and reports by text

watches_modules=no # the process ID of this shell, once it does

watch_modules() { # let the function module, if there is one, fail where it says that it failed. A child shell that inherits
  # it, as an exported function, has the original: another process ID, and no load_module
  local text body
  watches_modules=$$
  text=$(declare -f module) || return 0
  # Without own_module the wrapper is one that was inherited from a script which runs this one.
  [[ "$text" != *load_module* ]] || ! declare -F own_module > /dev/null || return 0
  eval "own_$text"
  body=${text#*$'\n'}
  eval "module() {
    if [ \"\${watches_modules-}\" = \$\$ ]; then
      load_module \"\$@\"
    else
      $body
    fi
  }"
}

load_module() { # load_module ARGUMENT...: call module, and fail if a module was to be loaded and is not
  local before=${LOADEDMODULES-} is_error=no text file code name watches_modules=no # own_module may call module
  local words=("$@")
  while [[ "${words[0]-}" == -* ]]; do # options of module itself, as -s
    words=("${words[@]:1}")
  done
  case ${words[0]-} in
    load | add) words=("${words[@]:1}") ;;
    swap | switch) words=("${words[@]: -1}") ;; # the other one is unloaded
    *) words=() ;;
  esac
  if [ ${#words[@]} -eq 0 ] || ! file=$(mktemp 2> /dev/null); then
    own_module "$@"
    return
  fi
  own_module "$@" > "$file" 2>&1
  code=$?
  text=$(< "$file")
  rm -f "$file"
  [ -z "$text" ] || printf '%s\n' "$text" >&2
  [ "$code" -eq 0 ] || return "$code"
  [[ ! "$text" =~ (^|:|$'\n')ERROR: ]] || is_error=yes # as versions in C and in Tcl write it
  for name in "${words[@]}"; do
    [[ "$name" != -* ]] || continue
    ! has_module "$name" || continue
    [ "$is_error" = no ] || return 1
    [ "${LOADEDMODULES+set}$before" = "set${LOADEDMODULES-}" ] || continue # another module, of which this is a name
    [[ "$name" != */* || ":${LOADEDMODULES,,}" != *":${name,,}."* ]] || continue # the newest version of those, loaded before
    [ -z "$text" ] || return 1
    say "module load $name loaded no module, and printed no reason"
  done
}

has_module() { # has_module NAME: is it loaded, in any version if none is named?
  local name=${1%/}
  [[ ":${LOADEDMODULES,,}:" == *":${name,,}"[:/]* ]]
}

# --- Variables that a person gives, by --env, a file or a line of set-up, and that reach the ranks under every launcher

declare -A inherited=() # what those of these names were when the script began, or as the script itself has set them

may_be_given() { # may_be_given NAME: is this a variable that a launcher or the scheduler may set again, or not pass on?
  case $1 in
    JAX_COORDINATOR_ADDRESS | TP_SOCKET_IFNAME | GPU_DEVICE_ORDINAL | ZE_AFFINITY_MASK) ;;
    *_VISIBLE_DEVICES | CUDA_DEVICE_ORDER | NCCL_* | RCCL_* | GLOO_* | UCX_* | FI_* | OMP_* | HOROVOD_* | XLA_*) ;;
    *) return 1 ;;
  esac
}

note_inherited() { # remember the variables that the scheduler or the submitting shell has set
  local name
  while read -r name; do
    ! may_be_given "$name" || inherited[$name]=${!name}
  done < <(compgen -e)
}

given_variables() { # print a line that exports each variable which was given since
  local name
  while read -r name; do
    may_be_given "$name" || continue
    [ "${inherited[$name]+is}${inherited[$name]-}" = "is${!name}" ] || printf 'export %s=%q\n' "$name" "${!name}"
  done < <(compgen -e)
  [ "$given_master" = no ] || printf 'export MASTER_ADDR=%q MASTER_PORT=%q\n' "$MASTER_ADDR" "$MASTER_PORT"
  # torchrun's own store listens elsewhere (torch/distributed/rendezvous.py).
  [ "$given_master" = no ] || echo 'export TORCHELASTIC_USE_AGENT_STORE=False'
}

warn_of_places() { # say that a line of set-up has set what each rank gets from its launcher
  local name
  keep_own_variables
  keep_to_own_cluster
  for name in RANK LOCAL_RANK NODE_RANK LOCAL_WORLD_SIZE WORLD_SIZE; do
    [ -z "${!name-}" ] || [ "$name=${!name}" = "WORLD_SIZE=${HPCLAUNCH_WORLD_SIZE-}" ] ||
      say "$name=${!name}, which a line of set-up sets, does not reach the ranks: the launcher gives each its own"
    unset "$name"
  done
}

keep_to_own_cluster() { # a login profile or a module may have set what sends the job's questions and steps to another one
  # shellcheck disable=SC2086 # names of variables
  unset $leads_astray
}

own_directory() { # own_directory FOLDER: stop if the run directory is not there, or if it or the code in it is neither
  # this user's nor root's, as others who may write into the folder around it can have exchanged it since the submission
  local path owner
  [ -e "$1" ] || stop "there is no run directory $1; a dry run makes none: hpclaunch render ... -o FILE does"
  for path in "$1" "$1/code"; do
    [ -e "$path" ] || continue
    owner=$(stat --format %u -- "$path" 2> /dev/null)
    [[ "$owner" = "$UID" || "$owner" = 0 ]] ||
      stop "$path belongs to the user with uid $owner and not to you: the run directory was exchanged"
  done
}

mark_terminated() { # write after how many seconds this script got its first SIGTERM: it has not failed by itself
  keep_own_variables
  [ -z "$attempt" ] || [ -e "$attempt/terminated" ] || printf '%s\n' "$SECONDS" > "$attempt/terminated"
}

leave_mark() { # leave_mark NAME TEXT: write a file of this start; false if the text has not reached the disk
  [ -n "$attempt" ] || return # the start has not begun
  printf '%s\n' "$2" | dd of="$attempt/$1" conv=fsync 2> /dev/null # NFS may tell of a full disk only now
}

leave_exit_code() {
  keep_own_variables
  superseded || leave_mark exit-code "$1" || say "the exit code $1 cannot be written to $attempt"
}

not_writable() {
  stop "the run directory $HPCLAUNCH_RUN_DIR cannot be written on $HOSTNAME"
}

array_task() { # array_task DIGITS VARIABLE [RUN]: find the run of this task, its folder and its values (never run as
  # code). RUN is the index of the run of task 0, in one of several arrays that share the runs.
  local index=${!2-} name lines
  [ -n "$index" ] || stop "this script is a job array, but $2 (the run's index) is not set: submit it to the scheduler"
  index=$((index + ${3:-0}))
  printf -v name "%0$1d" "$index"
  mapfile -t -s "$index" -n 1 lines < "$HPCLAUNCH_ARRAY_DIR/values"
  [[ "${lines[0]-}" == "$name"$'\t'* ]] ||
    stop "line $((index + 1)) of $HPCLAUNCH_ARRAY_DIR/values does not belong to run $name"
  export HPCLAUNCH_RUN_DIR="$HPCLAUNCH_ARRAY_DIR/$name"
  export HPCLAUNCH_SWEPT="${lines[0]#*$'\t'}"
  say "run $name: ${HPCLAUNCH_SWEPT//$'\t'/ }"
}

# --- Claims: only one start at a time may use a run directory, and none after the run has completed.
# Each start writes the next of claims/1, claims/2, ...: one line, START HOST PROCESS BEGAN. The newest claim holds the
# directory. No claim is ever changed or removed, so of two starts that see the same ended claim only one can follow it.

claim() { # claim the run directory, or stop; sets start, the name of this start, which no other start has, and exports
  # HPCLAUNCH_START, the number of its claim
  local claims="$HPCLAUNCH_RUN_DIR/claims" number=0 mine
  mkdir -p "$claims" 2> /dev/null || not_writable
  find_newest_claim
  while :; do
    while [ -e "$claims/$((number + 1))" ]; do
      number=$((number + 1))
    done
    [ ! -e "$claims/$number" ] || may_follow "$(text_of "$claims/$number")"
    name_start
    mine="$start $HOSTNAME $$ $(began_at $$)"
    leave_claim "$claims/$((number + 1))" "$mine"
    [ "$(text_of "$claims/$((number + 1))")" != "$mine" ] || break
    [ -e "$claims/$((number + 1))" ] || not_writable
  done
  export HPCLAUNCH_START=$((number + 1))
  later="$claims/$((number + 2))"
}

find_newest_claim() { # set number to that of the newest claim; if a person has removed the claims, to more than any start
  # can have had: the higher number decides whose checkpoints are newer
  local file starts=0
  for file in "$claims"/*; do
    file=${file##*/}
    [[ ! $file =~ ^[1-9][0-9]{0,8}$ ]] || [ "$file" -le "$number" ] || number=$file
  done
  [ "$number" -eq 0 ] || return 0
  for file in "$HPCLAUNCH_RUN_DIR"/attempts/*/; do
    [ ! -d "$file" ] || starts=$((starts + 1))
  done
  number=$((starts * 3)) # before a start's own claim stand two at most: free, and that of its job in the queue
}

name_start() { # set start to JOB.RESTART, or to a higher number if there was such a start: job IDs may begin again
  local number=$restart
  while [ -e "$HPCLAUNCH_RUN_DIR/attempts/$job.$number" ]; do
    number=$((number + 1))
  done
  start="$job.$number"
}

superseded() { # has a later start claimed the run directory? To open the folder makes NFS ask for names it did not find
  [ -n "$later" ] && { : < "${later%/*}"; } 2> /dev/null && [ -e "$later" ]
}

await_later_start() { # await_later_start PROCESS BEGAN FIRST EVERY: look after FIRST seconds, and then every EVERY seconds,
  # until a later start has claimed the run directory, or the function in the variable hangs says that the launcher hangs; false
  # once that process has ended
  local pause
  [ -n "$2" ] || return
  exec {pause}<> <(:) || return # to read from it waits without a further process; without it nothing would wait
  read -r -t "$3" -u "$pause"
  while [ "$(began_at "$1")" = "$2" ]; do
    ! superseded && ! ${hangs:-false} || return 0
    read -r -t "$4" -u "$pause"
  done
  return 1
}

text_of() { # print the first line of a small file; nothing if there is no such file
  local line=''
  { read -r line < "$1"; } 2> /dev/null
  printf '%s' "$line"
}

leave_claim() { # leave_claim FILE TEXT: write a new file at once, unless it exists; one link wins, also on NFS
  local draft="${1%/*}/.$start.$HOSTNAME.$$.$RANDOM$RANDOM" # containers may repeat process numbers
  printf '%s\n' "$2" 2> /dev/null > "$draft" || not_writable
  # Some file systems have no hard links.
  ln "$draft" "$1" 2> /dev/null || (set -o noclobber && cat "$draft" > "$1") 2> /dev/null
  rm -f "$draft"
}

may_follow() { # may_follow CLAIM: end this start, unless that start has ended and has not completed the run
  local named host process began holder next state ended
  read -r named host process began <<< "$1"
  [ "$named" != free ] || return 0 # hpclaunch wrote it: the earlier job has ended, and the run is started again
  [ -n "$named" ] || refuse 'of an empty claim' UNKNOWN
  holder=${named%.*}
  next=$(text_of "$HPCLAUNCH_RUN_DIR/attempts/$named/next-job")
  next=${next%%;*} # sbatch --parsable adds the cluster after a semicolon
  if [ -n "$next" ]; then # the script of that job has submitted a successor
    [ "$next" != "$job" ] || return 0
    state=$("${scheduler}_state" "$next")
    holder=$next
  elif [ "$holder" = "$job" ] && [ "${named##*.}" -lt "$restart" ]; then # the scheduler has queued this job again
    if ! has_completed "$named"; then
      ended=$(text_of "$HPCLAUNCH_RUN_DIR/attempts/$named/exit-code")
      [[ -n "$ended" && "$ended" != "$not_proven" ]] || outlived=$named
      return 0
    fi
    say "$(completed_by "$job")"
    exit 0 # not 78: the job has completed the run, and the scheduler's records must not call it failed
  elif [ "$holder" = "$job" ]; then # hpclaunch claimed the directory for this job
    state= # else there are two starts in one allocation, or the scheduler reuses a job ID
    [ "$host" != "$HOSTNAME" ] || state=$(state_of_process "$host" "$process" "$began" "$named")
  elif [[ "$holder" == by-hand-* ]]; then
    state=$(state_of_process "$host" "$process" "$began" "$named")
  else
    state=$("${scheduler}_state" "$holder" "$host" "$process" "$began" "$named")
  fi
  case $state in # the scheduler's COMPLETED is no success yet
    '' | BOOT_FAIL | CANCELLED | COMPLETED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) ;;
    *) refuse "$holder" "$state" ;;
  esac
  ! has_completed "$named" || refuse "$holder" COMPLETED
}

has_completed() { # has_completed START: has it completed the run? Its exit code alone does not tell.
  local folder="$HPCLAUNCH_RUN_DIR/attempts/$1" mark
  mark=$(text_of "$folder/completed")
  [ "${mark%% *}" != "$1" ] || return 0
  # An older hpclaunch, which had no folder ranks, left this mark without a text.
  [ -e "$folder/completed" ] && [ ! -e "$folder/ranks" ] && [ "$(text_of "$folder/exit-code")" = 0 ]
}

refuse() { # refuse JOB STATE: stop, because that job holds the run directory
  local place
  printf -v place %q "$HPCLAUNCH_RUN_DIR"
  case $2 in
    COMPLETED) stop "$(completed_by "$1")" ;;
    UNKNOWN) stop "nothing was started: job $1 has this run directory, and it is not known whether it has ended. \
If it has: echo free > $place/claims/$((number + 1)), and start this script again" ;;
    *) stop "nothing was started: job $1 has this run directory and is $2. See hpclaunch status $place; \
hpclaunch cancel $place ends it" ;;
  esac
}

completed_by() { # completed_by JOB: print why nothing is started after that job has completed the run
  local place
  printf -v place %q "$HPCLAUNCH_RUN_DIR"
  printf %s "nothing was started: job $1 has completed this run. See hpclaunch results $place; \
hpclaunch submit makes a new run. To start this one again anyway: echo free > $place/claims/$((number + 1))"
}

state_of_process() { # state_of_process HOST PROCESS BEGAN START: RUNNING if it, or another process of that start, lives
  if [ "$1" != "$HOSTNAME" ]; then
    printf UNKNOWN
  elif [ "$(began_at "$2")" = "$3" ] ||
    [ -n "$(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_RUN_DIR/attempts/$4/first-failure")" ]; then
    printf RUNNING
  fi
}

began_at() { # print when a process began, in clock ticks (/proc/PID/stat, field 22); nothing if it has ended
  local stat fields
  { IFS= read -r stat < "/proc/$1/stat"; } 2> /dev/null || return
  read -r -a fields <<< "${stat##*) }"
  [ "${fields[0]}" = Z ] || printf '%s' "${fields[19]}"
}

processes_with() { # processes_with NAME VALUE: print the processes on this node that began with that variable
  local process
  env -u "$1" LC_ALL=C \
    grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings "$1=$2" /proc/[0-9]*/environ |
    while IFS=/ read -r _ _ process _; do
      echo "$process"
    done
}

# --- What every rank runs: these functions, and the function rank of the script; the launcher gets their text

rank_program() { # print the text that the shell of every rank runs
  local own
  own=$(declare -f rank)
  if [ ${#copies[@]} -gt 0 ]; then
    in_copies "$own"
    echo
    declare -p HPCLAUNCH_BROADCAST
    declare -f leave_copies
  else
    printf '%s\n' "$own"
    echo 'unset HPCLAUNCH_BROADCAST' # a rank that is being ended removes this folder: never one that was not made here
  fi
  declare -f run_rank need_run_directory say stop end_rank end_superseded_rank set_rank set_rank_of_component \
    rank_log end_rank_log own_words mark_rank copy_output leave_first_failure leave_rank_code began_at watch_start \
    await_later_start superseded kill_start processes_with
  if [[ "$own" == *_gpu* ]]; then
    declare -f show_one_gpu check_gpus sees_others refuse_gpus find_gpus keep_named find_divided \
      nvidia_gpus amd_gpus find_other_vendor take_gpu
    ! declare -f "${scheduler}_node_gpus" || printf 'node_gpus() { %s_node_gpus; }\n' "$scheduler"
  fi
  printf 'later=%q watch_every=%q\n' "$later" "$watch_every"
  if [ "$samples" = yes ]; then
    declare -f sample_rank count_rank
    printf 'sampler=%q\n' "$(find_sampler)"
  else
    echo 'sampler=' # else a variable of the environment would be taken for one
  fi
  [ "$signal_to" != ranks ] || echo mark_rank
  echo run_rank
}

mark_rank() { # export a variable by which the script finds the processes of ranks
  export HPCLAUNCH_RANK_OF="$HPCLAUNCH_EXIT_FILE"
}

run_rank() { # run the rank and write its exit code, by which the script counts it; the first to fail writes it twice
  local code number='' copier='' log_begins=0 is_ended=no sampled='' watcher='' taken=()
  need_run_directory # some launchers pass on only the variables that they are asked to
  trap : USR1 USR2   # the program gets these signals too; this shell waits until it ends
  trap 'is_ended=yes' TERM
  [ "${HPCLAUNCH_WORLD_SIZE:-1}" -gt 1 ] || set_rank 1 0 # of several, the function rank says it
  rank
  code=$?
  if superseded; then # its watcher, which may still be at work, ends by itself
    end_superseded_rank
  else
    [ -z "$watcher" ] || kill -s KILL "$watcher" 2> /dev/null
    end_rank
  fi
  [ ${#taken[@]} -eq 0 ] || rm -f "${taken[@]}"
  [ -z "$copier" ] || end_rank_log
  [ -z "${HPCLAUNCH_BROADCAST-}" ] || leave_copies
  exit "$code"
}

end_superseded_rank() { # a later start has the run directory: report nothing to this start's script
  echo "hpclaunch: this rank of start $HPCLAUNCH_START ends here: a later start has claimed the run ($later)" >&2
  code=75
}

end_rank() { # write what the script reads about this rank
  [ -z "$sampled" ] || count_rank
  # The end of another rank may cause an exception of Python (1), or the end of Open MPI 5 (14, MPI_ERR_UNKNOWN): let
  # that rank write its code first.
  if [[ "$code" = 1 || "$code" = 14 ]] && [ "${HPCLAUNCH_WORLD_SIZE:-1}" -gt 1 ] && [ ! -e "$HPCLAUNCH_EXIT_FILE" ]; then
    sleep 3
  fi
  [ "$code" -eq 0 ] || leave_first_failure
  leave_rank_code
}

leave_first_failure() { # write this rank's exit code, and which rank it is and where, unless another has failed before it;
  # and from which byte on its log is of this start. A program of the library may have written all but the last itself
  local host first=''
  if (set -o noclobber && printf '%s\n' "$code" > "$HPCLAUNCH_EXIT_FILE") 2> /dev/null; then
    read -r host < /proc/sys/kernel/hostname
    printf '%s on %s\n' "rank${number:+ $number}" "$host" > "$HPCLAUNCH_EXIT_FILE.rank"
  fi
  { read -r first < "$HPCLAUNCH_EXIT_FILE.rank"; } 2> /dev/null
  [[ -z "$number" || "$first" != "rank $number on "* ]] || printf '%s\n' "$log_begins" > "$HPCLAUNCH_EXIT_FILE.from"
}

leave_rank_code() { # write this rank's exit code to a file of its own; a rank without a number by its host and process
  local folder="${HPCLAUNCH_EXIT_FILE%/*}/ranks" name=$number
  [ -d "$folder" ] || return 0 # the trials of a search are counted by its worker
  [ -n "$name" ] || { read -r name < /proc/sys/kernel/hostname && name+="-$$-$(began_at $$)"; }
  { printf '%s\n' "$code" > "$folder/$name"; } 2> /dev/null ||
    echo "hpclaunch: the exit code of this rank, $code, cannot be written to $folder/$name" >&2
}

watch_start() { # watch_start [LOCAL TASKS]: kill what this start runs on this node once a later start has claimed the run
  # directory. The batch script may be on a node that is lost. The ranks of a node look in turn, ten of them at most.
  local turns=${2:-1} began
  [[ -n "$later" && -z "$watcher" ]] || return 0
  began=$(began_at $$) # not in the subshell, which may begin when this shell has ended
  [ "$turns" -le 10 ] || turns=10
  (
    trap '' HUP INT QUIT TERM USR1 USR2 # the ranks may continue after these
    { printf hpc-watch > "/proc/$BASHPID/comm"; } 2> /dev/null # the name by which watchers spare each other
    await_later_start $$ "$began" $((watch_every * (${1:-0} % turns + 1))) $((watch_every * turns)) && kill_start
  ) < /dev/null > /dev/null 2>&1 &
  watcher=$!
  disown 2> /dev/null # else this shell reports how it ended; it may have ended by now
}

kill_start() { # kill the processes of this start on this node, but this rank's shell, which says why, and copiers of logs.
  # They get no SIGTERM, at which a program saves its state: that would replace what the later start has saved.
  local process name found watchers
  for _ in {1..20}; do
    found=no
    watchers=()
    for process in $(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_EXIT_FILE"); do
      name=
      { read -r name < "/proc/$process/comm"; } 2> /dev/null
      case $process,$name in
        "$$,"* | "$BASHPID,"* | *,tee | *,) continue ;; # without a name: it has ended
        *,hpc-watch) watchers+=("$process") && continue ;;
      esac
      found=yes
      kill -s KILL "$process" 2> /dev/null
    done
    [ "$found" = yes ] || break
  done
  [ ${#watchers[@]} -eq 0 ] || kill -s KILL "${watchers[@]}" 2> /dev/null # last: each may be the only one at work
}

set_rank() { # set_rank TASKS_PER_NODE NUMBER [LOCAL [NODE]]: export who this rank is (hpclaunch docs contract)
  watch_start ${2:+"${3:-$(($2 % $1))}" "$1"}
  [ -n "$2" ] || return 0 # the launcher does not tell: a program that asks then says what is missing
  number=$2
  export RANK=$2 WORLD_SIZE="${HPCLAUNCH_WORLD_SIZE:-1}" LOCAL_WORLD_SIZE=$1
  export LOCAL_RANK="${3:-$(($2 % $1))}" NODE_RANK="${4:-$(($2 / $1))}" # the ranks of a node are consecutive
  export JAX_COORDINATOR_ADDRESS="${JAX_COORDINATOR_ADDRESS:-${MASTER_ADDR-}:${MASTER_PORT-}}"
  [ -z "${sampler-}" ] || sample_rank
}

set_rank_of_component() { # set_rank_of_component "NODESxTASKS..." NUMBER [LOCAL [NODE]]: the same in a heterogeneous
  # job. Ranks and nodes are numbered component by component, as Slurm does.
  local shape tasks=1 node=0 rest=$2
  export HPCLAUNCH_COMPONENT=-1
  [ -n "$2" ] || return 0
  for shape in $1; do
    tasks=${shape#*x}
    HPCLAUNCH_COMPONENT=$((HPCLAUNCH_COMPONENT + 1))
    [ "$rest" -ge $((${shape%x*} * tasks)) ] || break
    rest=$((rest - ${shape%x*} * tasks))
    node=$((node + ${shape%x*}))
  done
  set_rank "$tasks" "$2" "${3:-$((rest % tasks))}" "${4:-$((node + rest / tasks))}"
}

# --- The GPUs of a rank (decision 65). No device is opened: where its driver must first start, that takes seconds.

show_one_gpu() { # show_one_gpu VENDOR: leave this rank one GPU of those that it sees, which is then number 0
  local gpus ids seen limit is_mig other='' word='' rest number
  [ -n "${LOCAL_RANK-}" ] || return 0
  export HPCLAUNCH_GPU_VIEW=one HPCLAUNCH_LOCAL_RANK=$LOCAL_RANK HPCLAUNCH_LOCAL_WORLD_SIZE=$LOCAL_WORLD_SIZE
  find_gpus "$1"
  if [ -z "$limit" ]; then
    : # neither the vendor nor a variable is known
  elif [ -z "${!limit+set}" ]; then
    [ "$seen" = 1 ] || export "$limit=$LOCAL_RANK"
  elif [[ "${!limit}" == *,* && ("$seen" != 1 || "$is_mig" = yes) ]]; then # else there is one already
    rest="${!limit},"
    for ((number = 0; number <= LOCAL_RANK; number++)); do
      word=${rest%%,*} rest=${rest#*,}
    done
    [ -n "$word" ] || refuse_gpus '' "$limit=${!limit} names no GPU for LOCAL_RANK=$LOCAL_RANK" || return
    export "$limit=$word"
  fi
  export LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
}

check_gpus() { # check_gpus VENDOR EACH [shared]: false, with a sentence, if this rank does not see the EACH GPUs that a
  # program takes by LOCAL_RANK, or another rank has one of them. Nothing is said about what cannot be known.
  local gpus ids seen limit is_mig other='' first device text=''
  [ -n "${LOCAL_RANK-}" ] || return 0
  find_gpus "$1"
  first=$((LOCAL_RANK * $2))
  [ -z "$limit" ] || text=" ($limit${!limit+=}${!limit- is not set})"
  if [ -n "$other" ]; then
    refuse_gpus "${3-}" "the site file promises GPUs of $1, and this node has GPUs of $other" || return
  elif sees_others "$seen"; then
    refuse_gpus "${3-}" "it sees $seen GPUs, and the job has $(node_gpus) on this node: $limit is not set, and nothing else hides \
those of other jobs" || return
  elif [ "$seen" = 0 ]; then
    [ "${HPCLAUNCH_EXPECT_GPU-}" != 1 ] || refuse_gpus "${3-}" "it sees no GPU$text" || return
  elif [ "$is_mig" = yes ] && [ $((first + $2)) -gt 1 ]; then
    refuse_gpus "${3-}" "a process sees one MIG device only, so GPU $first of LOCAL_RANK=$LOCAL_RANK is not there$text: \
type --tasks-per-node 1, or --gpu-view one for ranks that exchange nothing" || return
  elif [ "$is_mig" = yes ] && [ -z "${gpus[0]}${!limit+set}" ] && [ "${HPCLAUNCH_LOCAL_WORLD_SIZE:-1}" -gt 1 ]; then
    refuse_gpus "${3-}" "$limit is not set, so all $HPCLAUNCH_LOCAL_WORLD_SIZE ranks of this node would take the first MIG device: \
name one for each rank in $limit (nvidia-smi -L), or type --tasks-per-node 1" || return
  elif [ -n "$seen" ] && [ $((first + $2)) -gt "$seen" ]; then
    refuse_gpus "${3-}" "a program takes GPU $((first + $2 - 1)) by LOCAL_RANK=$LOCAL_RANK, and sees only $seen$text: \
type --gpu-view one, or fewer tasks per node" || return
  fi
  for device in "${gpus[@]:first:$2}"; do
    take_gpu "$device" || refuse_gpus "${3-}" "it has the GPU of rank $other, $device$text" || return
  done
}

sees_others() { # sees_others SEEN: does this rank see more GPUs than the scheduler has given the job on this node?
  local own
  [[ -n "$1" && -n "$limit" && -z "${!limit+set}" ]] && declare -F node_gpus > /dev/null || return
  own=$(node_gpus)
  [ "${own:-$1}" -lt "$1" ]
}

refuse_gpus() { # refuse_gpus SHARED REASON: false; the first rank to fail says why. Only a warning where ranks may share
  local node
  read -r node < /proc/sys/kernel/hostname
  if [ -n "$1${CUDA_MPS_PIPE_DIRECTORY-}" ]; then
    echo "hpclaunch: warning: rank ${RANK-} on $node: $2" >&2
    return 0
  fi
  (set -o noclobber && echo 78 > "${HPCLAUNCH_EXIT_FILE:-/dev/null}") 2> /dev/null &&
    echo "hpclaunch: rank ${RANK-} on $node was not started: $2" >&2
  return 1
}

find_gpus() { # find_gpus VENDOR: set gpus to those that this rank sees, in its order: device files, MIG devices, or empty
  # where only their number is known; ids to UUIDs; seen to how many they are (empty: not known); limit to the variable
  # that chooses among them; is_mig if they are divided; other to the vendor of this node's GPUs, if it is another
  local names=() name known=no divided=()
  gpus=() ids=() seen='' limit='' is_mig=no
  case $1 in
    NVIDIA) names=(CUDA_VISIBLE_DEVICES) && nvidia_gpus ;;
    AMD) names=(ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES) && amd_gpus ;;
    Intel) names=(ZE_AFFINITY_MASK) ;;
    *) names=(CUDA_VISIBLE_DEVICES) && [ -n "${CUDA_VISIBLE_DEVICES+set}" ] || names=(ROCR_VISIBLE_DEVICES) ;;
  esac
  # HIP counts among the GPUs that ROCR leaves, and CUDA_VISIBLE_DEVICES is another name of its variable.
  [[ "$1" != AMD || -n "${HIP_VISIBLE_DEVICES+set}" ]] || names[1]=CUDA_VISIBLE_DEVICES
  [[ "$known" = yes || "${HPCLAUNCH_EXPECT_GPU-}" != 1 ]] || find_other_vendor "$1"
  [ "$known" = no ] || seen=${#gpus[@]}
  [ "$1" = any ] || limit=${names[0]}
  for name in "${names[@]}"; do
    [ -z "${!name+set}" ] || { limit=$name && keep_named "${!name}"; }
  done
  find_divided
}

keep_named() { # keep_named LIST: keep the GPUs that a variable names, in its order. What names no GPU ends the list.
  local rest=$1, word place kept=() kept_ids=() kept_divided=()
  while [ -n "$rest" ]; do
    word=${rest%%,*} rest=${rest#*,}
    word=${word//[[:space:]]/}
    place=
    case $word in
      MIG-*) divided[${#gpus[@]}]=yes && place=${#gpus[@]} && gpus[place]=$word && ids[place]=$word ;;
      GPU-*)
        for place in "${!ids[@]}"; do
          [[ "${ids[place],,}" != "${word,,}"* ]] || break
          place=
        done
        [ -n "$place" ] || { place=${#gpus[@]} && gpus[place]=$word && ids[place]=$word; }
        ;;
      *[!0-9.]* | '') break ;;
      *)
        if [ "$known" = no ]; then
          kept+=('') kept_ids+=('') kept_divided+=('')
          continue
        fi
        place=$((10#${word%%.*}))
        [ "$place" -lt ${#gpus[@]} ] || break
        ;;
    esac
    kept+=("${gpus[place]}") kept_ids+=("${ids[place]}") kept_divided+=("${divided[place]-}")
  done
  [[ "$known" = no && -n "$seen" && "$seen" -lt ${#kept[@]} ]] || seen=${#kept[@]}
  gpus=("${kept[@]}") ids=("${kept_ids[@]}") divided=("${kept_divided[@]}")
}

find_divided() { # say whether the GPUs that are left are MIG devices, or divided into some: a process sees the first only
  local number=0 place
  for place in "${!gpus[@]}"; do
    [ "${divided[place]-}" != yes ] || number=$((number + 1))
  done
  [ "$number" -gt 0 ] || return 0
  if [ "$number" -lt ${#gpus[@]} ]; then # which of both kinds a process sees is not known here
    gpus=() seen=''
    return
  fi
  is_mig=yes seen=1
  [[ "${gpus[0]}" == MIG-* ]] || gpus=('')
}

nvidia_gpus() { # by PCI address, as CUDA counts like GPUs; a GPU whose device file a cgroup has closed is not seen
  local root=${HPCLAUNCH_HARDWARE_ROOT-} file text minor id parts
  for file in "$root"/proc/driver/nvidia/gpus/*/information; do
    text='' id=''
    IFS= read -r -d '' text 2> /dev/null < "$file"
    [[ "$text" =~ 'Device Minor:'[[:space:]]*([0-9]+) ]] || continue
    minor=${BASH_REMATCH[1]}
    known=yes
    [[ ! "$text" =~ 'GPU UUID:'[[:space:]]*([^[:space:]]+) ]] || id=${BASH_REMATCH[1]}
    [ -w "$root/dev/nvidia$minor" ] || continue
    parts=("$root/proc/driver/nvidia/capabilities/gpu$minor/mig"/gi*)
    [ ! -e "${parts[0]}" ] || divided[${#gpus[@]}]=yes
    gpus+=("nvidia$minor") ids+=("$id")
  done
}

amd_gpus() { # in the order of the driver's nodes, as ROCr counts
  local root=${HPCLAUNCH_HARDWARE_ROOT-} file number text minor id
  for ((number = 0; ; number++)); do
    file="$root/sys/class/kfd/kfd/topology/nodes/$number/properties"
    [ -e "$file" ] || break
    text='' id=''
    IFS= read -r -d '' text 2> /dev/null < "$file"          # a cgroup makes it empty
    [[ "$text" =~ 'simd_count '[1-9] ]] || continue          # a processor has none
    [[ "$text" =~ 'drm_render_minor '([0-9]+) ]] || continue
    minor=${BASH_REMATCH[1]}
    known=yes
    [[ ! "$text" =~ 'unique_id '([0-9]+) ]] || printf -v id 'GPU-%016x' "${BASH_REMATCH[1]}" 2> /dev/null
    [ -w "$root/dev/dri/renderD$minor" ] || continue
    gpus+=("renderD$minor") ids+=("$id")
  done
}

find_other_vendor() { # find_other_vendor VENDOR: set other if this node has no device of that vendor, but of another one
  local root=${HPCLAUNCH_HARDWARE_ROOT-} devices
  devices=("$root"/dev/nvidia[0-9]*)
  if [ "$1" = NVIDIA ] && [ ! -e "${devices[0]}" ]; then
    amd_gpus
    [ "$known" = no ] || other=AMD
  elif [ "$1" = AMD ] && [ ! -e "$root/dev/kfd" ]; then
    nvidia_gpus
    [ "$known" = no ] || other=NVIDIA
  fi
  gpus=() ids=() divided=() known=no
}

take_gpu() { # take_gpu DEVICE: mark it as this rank's, by an empty file in this node's memory; false, with other set to the
  # rank, if a living rank of this start has marked it before
  local start=${HPCLAUNCH_EXIT_FILE%/*} first mine file
  [ -n "$1" ] || return 0
  first="${HPCLAUNCH_HARDWARE_ROOT-}/dev/shm/hpclaunch-$UID-${HPCLAUNCH_RUN_DIR##*/}-${start##*/}-${1//\//_}."
  mine="$first$RANK.$$"
  set -o noclobber # in a folder of all users, where a link of that name may lie
  { : > "$mine"; } 2> /dev/null && taken+=("$mine")
  set +o noclobber
  for file in "$first"*; do
    [[ "$file" != "$mine" && -O "$file" && -d "/proc/${file##*.}" ]] || continue
    other=${file#"$first"}
    other=${other%.*}
    return 1
  done
}

# --- The log of a rank

rank_log() { # rank_log NUMBER: write the output of this rank to the job's log and to a file of its own
  number=$1
  [ -n "$number" ] || return 0
  [ -d "$HPCLAUNCH_RUN_DIR/logs" ] || mkdir -p "$HPCLAUNCH_RUN_DIR/logs"
  [ ! -s "$HPCLAUNCH_RUN_DIR/logs/rank-$number.out" ] || # of an earlier start
    log_begins=$(stat --format %s "$HPCLAUNCH_RUN_DIR/logs/rank-$number.out")
  exec > >(copy_output "$HPCLAUNCH_RUN_DIR/logs/rank-$number.out") 2>&1
  copier=$!
}

copy_output() { # copy_output FILE: copy with tee, and leave a mark for the script if some output could not be written
  local copying target=("$1") mark="${HPCLAUNCH_EXIT_FILE%/*}/ranks/$number.lost"
  trap '' HUP INT TERM USR1 USR2
  { printf tee > "/proc/$BASHPID/comm"; } 2> /dev/null # the name of a copier, which kill_start spares
  true >> "$1" || target=() # the job's log alone has it all then: nothing is lost
  tee -a "${target[@]}" <&0 &
  copying=$!
  trap 'kill -s KILL "$copying" && exit' ALRM # from end_rank_log
  # Where not even an empty file can be made, this rank has not reported its 0.
  wait "$copying" || : 2> /dev/null > "$mark" || rm -f "${mark%.lost}"
}

end_rank_log() { # wait for the last output, but not for a process that the rank left behind
  exec > /dev/null 2>&1
  for _ in {1..100}; do
    kill -s 0 "$copier" || break
    sleep 0.1
  done
  kill -s ALRM "$copier"
}

own_words() { # set the array own to this run's values of the sweep
  local i
  IFS=$'\t' read -r -a own <<< "$HPCLAUNCH_SWEPT"
  for i in "${!own[@]}"; do
    printf -v "own[i]" %b "${own[i]}" # \\ and \0nnn become characters; nothing is executed
  done
}

# --- Where the ranks are

list_hosts() { # list_hosts SLOTS: write the list of hosts for a launcher that uses ssh
  "${scheduler}_hosts" | sed "s/\$/ slots=$1/" > "$HPCLAUNCH_RUN_DIR/hosts"
  check 'listing the hosts of the job'
}

set_master() { # export the address where rank 0 may listen: the first host of the job, and a port that is free there;
  # one that was given stays
  local host
  [ "$has_master" = no ] || return 0
  has_master=yes
  [ -z "${MASTER_ADDR-}${MASTER_PORT-}" ] || given_master=yes
  if [ -z "${MASTER_ADDR-}" ]; then
    host=localhost
    if [ "${HPCLAUNCH_WORLD_SIZE:-1}" -gt 1 ]; then
      host=$("${scheduler}_hosts" 2> /dev/null) || host=$(this_host) # the script runs on the first host
      host="${host%%$'\n'*}$address_suffix"
    fi
    MASTER_ADDR=$host
  fi
  MASTER_PORT=${MASTER_PORT:-$(port_of_job)}
  export MASTER_ADDR MASTER_PORT
}

this_host() { # print the name that this host has for its kernel: HOSTNAME may come from another, with its other variables
  local name
  read -r name < /proc/sys/kernel/hostname
  printf %s "$name"
}

port_of_job() { # port_of_job [FURTHER]: print a port that is free here, and that no other job takes first; or a further one
  local range='' number=${job-}
  [ "${HPCLAUNCH_WORLD_SIZE:-1}" -eq 1 ] || range=$("${scheduler}_ports")
  number=${number//[!0-9]/}
  range=${range:-20000-29999} # below the system's ephemeral ports
  free_port "${range%-*}" "${range#*-}" "$((10#${number:-0} + ${1:-0}))"
}

free_port() { # free_port FIRST LAST NUMBER: print a port of this range that no process uses on this host, by a job's number
  local count=$(($2 - $1 + 1)) tried port hex
  for ((tried = 0; tried < count; tried++)); do
    port=$(($1 + (10#$3 + tried) % count))
    printf -v hex %04X "$port"
    grep --quiet --no-messages "^ *[0-9]*: [0-9A-F]*:$hex " /proc/net/tcp /proc/net/tcp6 || break
  done
  echo "$port"
}

set_rendezvous() { # set_rendezvous [HOST]: export the address where torchrun's nodes meet, unless it was given: on the first
  # host of the job, where the script runs, or on this one
  local port
  set_master
  port=$MASTER_PORT
  [ "$given_master" = no ] || port=$(port_of_job 1)
  [ "$given_master$port" != "yes$MASTER_PORT" ] || port=$(port_of_job 2) # there rank 0 itself listens
  export PET_RDZV_ID="${PET_RDZV_ID:-$job}"
  export PET_RDZV_ENDPOINT="${PET_RDZV_ENDPOINT:-${1:-$(this_host)$address_suffix}:$port}" # torchrun compares its host's name
}

set_workers() { # set_workers TASKS_PER_NODE: export the address where each rank listens, by rank
  local hosts host task port
  hosts=$("${scheduler}_hosts") || exit
  port=$((10#${job//[!0-9]/} * 100)) # below the system's ephemeral ports, and different for the next job
  HPCLAUNCH_WORKERS=
  for host in $hosts; do
    for ((task = 0; task < $1; task++)); do
      HPCLAUNCH_WORKERS+="${HPCLAUNCH_WORKERS:+,}$host:$((10000 + port++ % 20000))"
    done
  done
  export HPCLAUNCH_WORKERS
}

# --- The launch

launch() { # launch [LAUNCHER ARGUMENT...]: start the ranks and wait for their end; without a launcher start one rank
  warn_of_places
  set_master
  start_ranks "$@" bash -c "$(given_variables; rank_program)"
}

launch_search() { # launch_search NODES PYTHON TRIALS CPUS GPUS [LAUNCHER ARGUMENT...]: start a worker of the search on
  # every node. It shares CPUS and GPUS of the node among TRIALS trials at a time; each runs the script's function rank.
  local sampled=$samples
  keep_to_own_cluster
  keep_own_variables
  ranks=$1 # the workers; HPCLAUNCH_WORLD_SIZE is that of a trial
  hpclaunch_own+=$'\n'"declare -g ranks=$1"
  shift
  samples=no # of each trial; the worker has a sampler
  rank_program > "$attempt/trial" || stop "$attempt/trial cannot be written"
  samples=$sampled
  need "$1"
  export HPCLAUNCH_SEARCH_PYTHON="$1" HPCLAUNCH_SEARCH_SHARES="$2 $3 $4" HPCLAUNCH_SEARCH_START="$start"
  # shellcheck disable=SC2317 # the launcher calls it
  rank() { # the worker; one that is killed begins again, and tries its trials again
    local code tries
    number='' # that of a trial's only rank; a worker reports by host and process
    watch_start
    for tries in 1 2 3 4; do
      env -u PYTHONPATH -u PYTHONHOME HPCLAUNCH_SEARCH_PATH="${PYTHONPATH-}" HPCLAUNCH_SEARCH_HOME="${PYTHONHOME-}" \
        "$HPCLAUNCH_SEARCH_PYTHON" -m hpclaunch.search
      code=$?
      [ "$code" -eq 137 ] && [ "$tries" -lt 4 ] && ! superseded || return "$code"
    done
  }
  launch "${@:5}"
}

launch_file() { # the same, for a launcher that passes its command to a shell as text: the rank's command is in a file
  warn_of_places
  set_master
  { given_variables && rank_program; } > "$attempt/rank" || stop "$attempt/rank cannot be written"
  start_ranks "$@" bash "$attempt/rank"
}

start_ranks() { # start_ranks COMMAND...: run it in the background, as bash runs traps only between foreground commands
  local clock='' watch='' interrupted hangs=false world=${ranks:-${HPCLAUNCH_WORLD_SIZE:-1}}
  log_begins=$(stat --dereference --format=%s "/proc/$$/fd/2" 2> /dev/null)
  launcher='' received='' overdue=no
  # Before the traps: bash 5.2 aborts if a trap interrupts it while it reads a command substitution.
  [ "$walltime" -eq 0 ] || start_clock "$walltime"
  [ -z "$hangs_by" ] || ! "$hangs_by" "$@" || hangs=launcher_hangs
  watch_launch
  trap 'interrupted=yes; pass_signal TERM' TERM INT HUP
  trap 'interrupted=yes; pass_signal USR1' USR1
  trap 'interrupted=yes; pass_signal USR2' USR2
  trap 'interrupted=yes; end_ranks' ALRM
  start_apart "$@"
  launcher=$!
  [ -z "$received" ] || signal_ranks "$received"
  await "$launcher"
  launcher='' # another process may get its number now
  [ -z "$clock" ] || { kill -s KILL -- "-$clock" && wait "$clock"; } 2> /dev/null
  [ -z "$watch" ] || { kill -s KILL -- "-$watch" && wait "$watch"; } 2> /dev/null
}

await() { # await PROCESS: wait for its end, also if a trap interrupts that, which sets interrupted; sets code
  while :; do
    interrupted=no
    wait "$1"
    code=$?
    [ "$interrupted" = yes ] || break
  done
}

start_apart() { # start a command in the background, in a process group of its own
  set -m
  "$@" < /dev/null &
  set +m
}

pass_signal() { # pass a signal on to the ranks: at once, or as soon as they are started
  [ "$1" != TERM ] || mark_terminated
  asked=${asked:-$SECONDS}
  received=${pass_on:-$1}
  [ -z "$launcher" ] || signal_ranks "$received"
}

signal_ranks() { # signal_ranks SIGNAL
  local processes=("$launcher")
  [ -z "$signal_by" ] || ! "$signal_by" "$1" || return 0
  if [ "$signal_to" = group ]; then
    processes=("-$launcher")
  elif [ "$signal_to" = ranks ]; then
    mapfile -t processes < <(processes_with HPCLAUNCH_RANK_OF "$HPCLAUNCH_EXIT_FILE")
    # If no rank has begun, TERM ends the launcher; other signals come too early.
    [ ${#processes[@]} -gt 0 ] || [ "$1" != TERM ] || processes=("$launcher")
  fi
  kill -s "$1" -- "${processes[@]}" 2> /dev/null
}

start_clock() { # start_clock SECONDS: send this script ALRM after that time; the clock has no variables of a rank
  start_apart env -i PATH="$PATH" bash -c "$(declare -f began_at ring); ring $1 $$ $(began_at $$)" > /dev/null 2>&1
  clock=$!
}

watch_launch() { # send this script ALRM once a later start has claimed the run directory, or the launcher hangs; without
  # variables of a rank, too
  [ -n "$later" ] || return 0
  start_apart env -i PATH="$PATH" bash -c "$(declare -f began_at superseded await_later_start launcher_hangs all_reported)
$(declare -p later attempt world hangs)
await_later_start $$ $(began_at $$) $watch_every $watch_every && kill -s ALRM $$" > /dev/null 2>&1
  watch=$!
}

launcher_hangs() { # have all ranks ended by the fourth look before this one?
  all_reported || return
  looks=$((${looks:-0} + 1))
  [ "$looks" -gt 4 ]
}

all_reported() { # has every rank left its exit code?
  set -- "$attempt/ranks"/*[0-9] # not NUMBER.lost
  [ -e "$1" ] && [ $# -ge "$world" ]
}

ring() { # ring SECONDS PROCESS BEGAN: send ALRM to that process after that time, if it still lives
  sleep "$1"
  [ "$(began_at "$2")" != "$3" ] || kill -s ALRM "$2"
}

end_ranks() { # the walltime is over: end the ranks, and kill those that still run half a minute later. Those of a start
  # that is superseded are killed at once: what they save would replace what the later start has saved
  local left
  if [ "$hangs" != false ] && ! superseded && all_reported; then
    hung=yes
    say "every rank has ended, but the launcher has not: it is killed"
    kill -s KILL -- "-$launcher" 2> /dev/null
  elif [ "$overdue" = no ] && ! superseded; then
    overdue=yes
    leave_mark overdue "$SECONDS" || :
    signal_ranks TERM
    start_clock 30
  else
    mapfile -t left < <(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_EXIT_FILE")
    kill -s KILL -- "-$launcher" "${left[@]}" 2> /dev/null
  fi
}

# --- The end of a run

finish() { # end with the exit code of the first failing rank, else with that of the launcher; with 0 only after a proof
  local again=''
  "${scheduler}_finish"
  # A job that the scheduler is ending can start nothing more: there the ranks have done it.
  [ ${#copies[@]} -eq 0 ] || [ -e "$attempt/terminated" ] || remove_copies "$HPCLAUNCH_BROADCAST"
  if superseded; then
    say "start $HPCLAUNCH_START ends here and starts nothing again: a later start has claimed the run ($later)"
    exit 75
  fi
  [ "$hung" = no ] || code=0 # the ranks' own codes tell
  if [ "$overdue" = yes ]; then
    exit 124 # as timeout(1) does; the mark overdue tells it from a program's own 124
  fi
  if [ -s "$HPCLAUNCH_EXIT_FILE" ]; then
    code=$(< "$HPCLAUNCH_EXIT_FILE")
  elif [ "$code" -eq 0 ]; then
    prove_success
  fi
  if [ "$restarts" -gt 0 ] && [ "$code" -ne 0 ]; then
    if [ "$code" -eq 75 ]; then
      start_again saved # the ranks saved their state and ask for a restart (hpclaunch docs contract)
    elif "${scheduler}_preempted"; then
      start_again preempted # a failure in this grace is no error of the program
    elif [ -n "$again" ]; then
      start_again "$again"
    fi
  fi
  exit "$code"
}

end_what_is_left() { # end what the ranks left on this node, where no scheduler does
  [ "$samples" = no ] || end_sampler
  end_left
}

end_left() { # end_left [NAME=VALUE]: end processes of this start that the ranks left on this node; of those that began with that
  # variable. TERM first, so that they can write their last lines
  local left
  find_left "$@"
  [ ${#left[@]} -gt 0 ] || return 0
  kill -s TERM "${left[@]}" 2> /dev/null
  for _ in {1..50}; do
    find_left "$@"
    [ ${#left[@]} -gt 0 ] || return 0
    sleep 0.1
  done
  kill -s KILL "${left[@]}" 2> /dev/null
}

find_left() { # find_left [NAME=VALUE]: set the array left to these processes
  local process all
  mapfile -t all < <(processes_with HPCLAUNCH_EXIT_FILE "$HPCLAUNCH_EXIT_FILE")
  left=()
  for process in "${all[@]}"; do
    [ "$process" != $$ ] || continue
    [ $# -eq 0 ] || LC_ALL=C grep -qszxF "$1" "/proc/$process/environ" || continue
    left+=("$process")
  done
}

# --- Success: a launcher may end with 0 although a node has failed, or its ranks were killed

prove_success() { # the launcher ended with 0: mark this start as completed, or set code to another, and again to why
  local fault='' recorded=yes asked_to_end=no lost=()
  find_fault
  if [ -z "$fault" ] && [ ${#lost[@]} -gt 0 ]; then
    recorded=no
    fault="the log is incomplete: output of ${#lost[@]} of ${ranks:-${HPCLAUNCH_WORLD_SIZE:-1}} ranks could not be written \
(${lost[*]:0:8}${lost[8]:+ ...})"
  fi
  if [ -z "$fault" ] && leave_mark completed "$start ${ranks:-${HPCLAUNCH_WORLD_SIZE:-1}}"; then
    rm -rf "$attempt/ranks"
    return
  fi
  if [ -z "$fault" ] || [ "$recorded" = no ]; then
    code=$not_recorded
    fault="${fault:-$attempt/completed cannot be written}. Is the disk full?"
    leave_mark not-recorded "$fault" # for hpclaunch status
    say "this start has not completed the run: $fault"
  elif [ "$asked_to_end" = yes ]; then
    code=143 # mpirun of Open MPI 5 may end with 0 after Slurm has ended its daemons, which kill the ranks
  else
    code=$not_proven
    again="not completed, as $fault"
    say "this start has not completed the run: the launcher ended with 0, but $fault"
  fi
}

find_fault() { # set fault to what speaks against a success, and asked_to_end to yes if the ranks were asked to end
  local waited words
  count_ranks
  words=$("${scheduler}_lost_node")
  [ -z "$words" ] || fault="the log says: $words"
  [ -n "$fault" ] || return 0
  { [ -z "$asked" ] && ! "${scheduler}_preempted"; } || asked_to_end=yes
  [ -z "$words" ] && [ "$asked_to_end" = no ] && [ "${ranks:-${HPCLAUNCH_WORLD_SIZE:-1}}" -gt 1 ] || return 0
  for ((waited = 0; waited < 65; waited++)); do # a shared file system shows some files only after a minute
    sleep 1
    count_ranks
    [ -n "$fault" ] || return 0
  done
}

count_ranks() { # set fault unless as many ranks as were asked for have ended with 0, each with a file of its own; and
  # set recorded to no if one could not write its file, and lost to those whose log lacks some of their output
  local world=${ranks:-${HPCLAUNCH_WORLD_SIZE:-1}} number file code missing=() without_number=0
  fault=
  recorded=yes
  lost=()
  for file in "$attempt/ranks"/*.lost; do
    file=${file##*/}
    [[ "$file" == '*.lost' ]] || lost+=("${file%.lost}")
  done
  for file in "$attempt/ranks"/*-*; do # HOST-PROCESS-BEGAN, of ranks that the launcher gives no numbers
    code=
    { read -r code < "$file"; } 2> /dev/null
    [ "$code" != 0 ] || without_number=$((without_number + 1))
  done
  for ((number = 0; number < world; number++)); do
    code=none
    { read -r code < "$attempt/ranks/$number"; } 2> /dev/null
    [ -n "$code" ] || recorded=no
    [ "$code" = 0 ] || missing+=("$number")
  done
  if [ $((world - ${#missing[@]} + without_number)) -lt "$world" ]; then
    fault="$((${#missing[@]} - without_number)) of $world ranks did not report that they ended with 0"
    [ "$without_number" -gt 0 ] || [ "$world" -eq 1 ] || fault+=" (${missing[*]:0:8}${missing[8]:+ ...})"
  elif [ -e "$attempt/training" ] && [ ! -e "$attempt/trained" ]; then # of hpclaunch.training
    fault='its training did not reach its end'
  fi
}

run_batch_script() { # run_batch_script COMMAND...: run a batch script that starts its ranks itself, and end with its exit code.
  # Nothing is known about its ranks, and the mark says so.
  local interrupted name
  keep_own_variables
  launcher=''
  for name in TERM INT HUP USR1 USR2; do
    # shellcheck disable=SC2064 # the name of now
    trap "interrupted=yes; pass_to_script $name" "$name"
  done
  set -m
  "$@" &
  set +m
  launcher=$!
  await "$launcher"
  if [ "$code" -eq 0 ] && ! superseded; then
    leave_mark completed "$start script" || code=$not_recorded
  fi
  exit "$code"
}

pass_to_script() { # pass_to_script SIGNAL
  [ "$1" != TERM ] || mark_terminated
  [ -z "$launcher" ] || kill -s "$1" "$launcher" 2> /dev/null
}

# --- Restarts by the script itself

patiently() { # patiently COMMAND...: call the scheduler; if that fails, try again up to five times while the lead lasts
  local pause
  for pause in 1 2 4 8 16; do
    "$@" && return
    [ $((SECONDS + pause)) -lt "$lead_ends" ] || return
    say "the call of the scheduler failed; trying again in $pause s"
    sleep "$pause"
  done
  "$@"
}

start_again() { # start_again WHY: restart the job, unless it was cancelled or has reached its limit
  local next_step="To continue: hpclaunch resume $HPCLAUNCH_RUN_DIR" state since="$HPCLAUNCH_RUN_DIR/job.sh"
  local lead_ends=$((${asked:-$SECONDS} + restart_lead))
  if [ -n "${HPCLAUNCH_ARRAY_DIR-}" ]; then
    since="$HPCLAUNCH_RUN_DIR/resumed" # written by hpclaunch resume: restarts are counted from there
    [ -e "$since" ] || since="$HPCLAUNCH_ARRAY_DIR/job.sh"
  fi
  if "${scheduler}_requeued"; then
    say "$1; the scheduler has queued this job again"
    return
  fi
  if [ "$(find "$HPCLAUNCH_RUN_DIR/attempts" -name started -newer "$since" | wc -l)" -gt "$restarts" ]; then
    [ "$restarts" -eq 1 ] && state='1 restart' || state="$restarts restarts"
    say "$1; not started again: its limit is $state. $next_step"
    return
  fi
  state=$("${scheduler}_state" "$job")
  if [ "$state" != RUNNING ]; then
    say "$1; not started again, as the job is ${state:-unknown to the scheduler}. $next_step"
    return
  fi
  case $restart_by in
    requeue)
      say "$1; requeueing the job"
      "${scheduler}_requeue" || say "the scheduler does not requeue this job. $next_step"
      ;;
    resubmit)
      say "$1; submitting a successor"
      "${scheduler}_resubmit" > "$attempt/next-job" || say "the successor could not be submitted. $next_step"
      ;;
    *) say "$1. $next_step" ;;
  esac
}

# --- What differs between schedulers: the functions of each begin with its name, by which they are called. A further
# scheduler has its own in a file beside this one:
# NAME_job                    set job (the job ID), and restart (the number of its restarts, if the scheduler has them)
# NAME_state JOB ...          print the state of a job in Slurm's words: nothing if it failed or is no longer known,
#                             UNKNOWN if the scheduler does not answer. Then host, process, beginning and name of the
#                             start that holds the run directory, if that is asked about
# NAME_hosts                  print the names of the job's hosts, one per line
# NAME_ports                  print FIRST-LAST, the ports that the cluster keeps for jobs; nothing if it keeps none
# NAME_finish                 end processes that the job left, if the scheduler does not
# NAME_preempted              is the scheduler taking the nodes away?
# NAME_requeued               has the scheduler queued this job again, for another start?
# NAME_lost_node              print that a node failed, if launcher or scheduler wrote so into the log of this start
# With a queue also NAME_requeue (requeue this job), NAME_resubmit (submit job.sh as its successor, and print the
# successor's job ID) and NAME_skip_steps (launch under no name that ranks of an earlier start of this job may have).
# If it assigns GPUs also:
# NAME_node_gpus              print, in a rank, how many it has given the job on this node; nothing if that is not known
# If it can copy files to the nodes (broadcasts, in its row) also:
# NAME_send FILE PATH         copy a file to PATH on every node of the job; never over a file that is there
# NAME_on_nodes COMMAND ...   run a command once on every node
# NAME_memory                 print the memory of the job on a node in MB; 0 if it has no limit of its own
