# shellcheck shell=bash
# --- The launcher local: this library itself starts the ranks, so that nothing has to be installed

spawn_ranks() { # spawn_ranks TASKS COMMAND...: start so many ranks on this machine
  spawn_node 0 "$@"
}

spawn_over_ssh() { # spawn_over_ssh NODES TASKS HOSTS COMMAND...: start so many ranks on each of the first NODES in a list of hosts
  local listed node
  mapfile -t listed < <(cut --delimiter=' ' --fields=1 "$3")
  [ ${#listed[@]} -ge "$1" ] || stop "$3 lists ${#listed[@]} hosts, not $1"
  before_spawning
  for ((node = 0; node < $1; node++)); do
    spawn spawn_on_host "${listed[node]}" "$node" "$2" "${@:4}"
  done
  await_spawned "$1"
}

spawn_on_host() { # spawn_on_host HOST NODE TASKS COMMAND...: start the ranks of a node from a shell there, which reads what to
  # do, and then signals, from its input. That ends when this process or the connection ends
  local reach=(ssh -T -o BatchMode=yes "$1") knows=no received='' interrupted both from to shell here
  here=$(this_host)
  case $1 in
    localhost | "$here" | "${here%%.*}") reach=() ;;
  esac
  trap 'interrupted=yes; signal_host TERM' TERM
  trap 'interrupted=yes; signal_host USR1' USR1
  trap 'interrupted=yes; signal_host USR2' USR2
  exec {both}<> <(:)
  exec {from}< "/dev/fd/$both" {to}> "/dev/fd/$both" {both}>&-
  set -m # in a process group of its own, which gets no signals
  "${reach[@]}" bash --norc <&"$from" {to}>&- &
  shell=$!
  set +m
  exec {from}<&-
  trap '' PIPE # it may have ended already
  { host_program "${@:2}" >&"$to"; } 2> /dev/null
  knows=yes
  [ -z "$received" ] || signal_host "$received"
  await "$shell"
  [ "$code" -ne 255 ] || [ ${#reach[@]} -eq 0 ] || [ -e "$HPCLAUNCH_EXIT_FILE" ] ||
    say "no ranks on $1, or the connection was lost: ssh ended with 255. Try: ssh -o BatchMode=yes $1 true"
  return "$code"
}

signal_host() { # signal_host SIGNAL: at once, or as soon as the host knows what to do
  received=$1
  [ "$knows" = no ] || { echo "$1" >&"$to"; } 2> /dev/null
}

host_program() { # host_program NODE TASKS COMMAND...: print what the shell on a host runs; variables of the host stay there
  local name
  while IFS= read -r name; do
    case $name in
      _ | BASHOPTS | DBUS_* | DISPLAY | HOME | HOSTNAME | LOGNAME | OLDPWD | PWD) ;;
      SHELL | SHELLOPTS | SHLVL | SSH_* | TERM | USER | XAUTHORITY | XDG_RUNTIME_DIR) ;;
      *) printf 'export %s=%q\n' "$name" "${!name}" ;;
    esac
  done < <(compgen -e)
  declare -f say stop enter await start_apart spawn_node before_spawning spawn keep without_reports signal_group find_spawned \
    signal_spawned await_spawned collect_ends next_report share_cpus list_cpus processes_with find_left end_left serve_host relay_signals
  printf 'enter %q\n' "$PWD"
  printf '%q ' serve_host "$@"
  echo
}

serve_host() { # serve_host NODE TASKS COMMAND...: what the shell on a host does: start the ranks of the node, pass on the
  # signals that it reads, end what the ranks left, and end with the exit code of the node
  local interrupted spawner relay
  start_apart spawn_node "$@"
  spawner=$!
  relay_signals "$spawner" <&0 > /dev/null 2>&1 &
  relay=$!
  await "$spawner"
  kill -s KILL "$relay"
  wait "$relay" 2> /dev/null
  end_left "NODE_RANK=$1"
  exit "$code"
}

relay_signals() { # relay_signals PROCESS: send it the signals that are read; at their end TERM, and KILL to its ranks
  local signal
  while read -r signal; do
    kill -s "$signal" "$1"
  done
  kill -s TERM "$1"
  sleep 5
  kill -s ALRM "$1"
}

spawn_node() { # spawn_node NODE TASKS COMMAND...: start the ranks of a node, each on CPUs of its own, and wait for their end
  local node=$1 tasks=$2 task cpus=()
  shift 2
  mapfile -t cpus < <(share_cpus "$tasks")
  before_spawning
  for ((task = 0; task < tasks; task++)); do
    spawn exec env "RANK=$((node * tasks + task))" "LOCAL_RANK=$task" "NODE_RANK=$node" \
      ${cpus[task]:+taskset -c "${cpus[task]}"} "$@"
  done
  await_spawned "$tasks"
}

before_spawning() { # prepare for processes that report when they are ready, and how they ended
  all_spawned=no received='' collector='' spawned=()
  exec {reports}<> <(:)
  trap 'interrupted=yes; signal_spawned TERM' TERM
  trap 'interrupted=yes; signal_spawned USR1' USR1
  trap 'interrupted=yes; signal_spawned USR2' USR2
  trap 'interrupted=yes; signal_spawned ALRM' ALRM
}

spawn() { # spawn COMMAND...: start it in a process group of its own, beside a process that reports its end
  start_apart keep ${#spawned[@]} "$@"
  spawned+=("$!")
}

keep() { # keep NUMBER COMMAND...: run it, pass signals on to all processes of its group, and report its exit code
  local interrupted number=$1
  shift
  group='' received='' code=1
  trap 'interrupted=yes; signal_group TERM' TERM
  trap 'interrupted=yes; signal_group USR1' USR1
  trap 'interrupted=yes; signal_group USR2' USR2
  trap 'interrupted=yes; signal_group KILL' ALRM
  trap 'echo "end $number $code" >&"$reports"' EXIT
  echo "ready $number" >&"$reports"
  start_apart without_reports "$@"
  group=$!
  [ -z "$received" ] || signal_group "$received"
  await "$group" 2> /dev/null # a shell tells of a process that was killed
  group=''                    # another process may get its number now
}

without_reports() {
  exec {reports}>&-
  "$@"
}

signal_group() { # signal_group SIGNAL: at once, or as soon as the command is started
  received=$1
  [ -z "$group" ] || kill -s "$1" -- "-$group" 2> /dev/null
}

find_spawned() { # set the array running to those of the spawned processes that have not ended
  local process
  running=()
  while read -r process; do
    [ "$process" = "$collector" ] || running+=("$process")
  done < <(jobs -rp)
}

signal_spawned() { # signal_spawned SIGNAL: at once, or as soon as all are started
  local running
  received=$1
  [ "$all_spawned" = yes ] && find_spawned && [ ${#running[@]} -gt 0 ] && kill -s "$1" "${running[@]}" 2> /dev/null
}

await_spawned() { # await_spawned COUNT: wait until all have ended with 0. After the first other exit code, which becomes
  # that of the launch, end the others, and kill those that still run five seconds later
  local interrupted code ready=0 running kind number end ended=()
  while [ "$ready" -lt "$1" ]; do
    next_report
    case $kind in
      ready) ready=$((ready + 1)) ;;
      end) # the first may have ended before the last is ready; of one that was lost, nothing else will come
        ended[number]=$end
        [ "$end" -eq 0 ] || break
        ;;
    esac
  done
  collect_ends "$1" &
  collector=$!
  all_spawned=yes
  [ -z "$received" ] || signal_spawned "$received"
  await "$collector"
  [ "$code" -ne 0 ] || return 0
  (set -o noclobber && printf '%s\n' "$code" > "$HPCLAUNCH_EXIT_FILE") 2> /dev/null
  signal_spawned TERM
  for _ in {1..50}; do
    find_spawned
    [ ${#running[@]} -gt 0 ] || break
    sleep 0.1
  done
  signal_spawned ALRM
  return "$code"
}

collect_ends() { # collect_ends COUNT: end with 0 after so many ends with 0, and at once with any other exit code
  for end in "${ended[@]}"; do
    [ "$end" -eq 0 ] || exit "$end"
  done
  while [ ${#ended[@]} -lt "$1" ]; do
    next_report
    [ "$kind" = end ] || continue
    ended[number]=$end
    [ "$end" -eq 0 ] || exit "$end"
  done
  exit 0
}

next_report() { # set kind, number and end to the next report. One who is gone without a report was killed: its end is 137. A
  # rank that has failed may be kept by children that hold its log open, but its exit code is written
  local gone=''
  until read -r -t 2 -u "$reports" kind number end; do
    if [ -s "$HPCLAUNCH_EXIT_FILE" ] && read -r end < "$HPCLAUNCH_EXIT_FILE"; then
      kind=end number=0
      return
    fi
    if [ -n "$gone" ]; then # what it had reported would have been read
      kind=end number=$gone end=137
      return
    fi
    for number in "${!spawned[@]}"; do
      [ -n "${ended[number]-}" ] || kill -0 "${spawned[number]}" 2> /dev/null || gone=$number
    done
  done
}

share_cpus() { # share_cpus COUNT: print so many lists of the CPUs that this process may use: no CPU twice, and in each the
  # threads of a core and the cores of a socket that are beside each other. Nothing if there are too few, or no taskset
  local cpus parts=() socket core cpu last='' part each
  mapfile -t cpus < <(list_cpus | sort -n -k 1,1 -k 2,2 -k 3,3)
  [ ${#cpus[@]} -ge "$1" ] && taskset -c "${cpus[0]##* }" true 2> /dev/null || return 0
  for cpu in "${cpus[@]}"; do
    read -r socket core cpu <<< "$cpu"
    if [ "$socket $core" = "$last" ]; then
      parts[${#parts[@]} - 1]+=",$cpu"
    else
      parts+=("$cpu")
    fi
    last="$socket $core"
  done
  [ ${#parts[@]} -ge "$1" ] || parts=("${cpus[@]##* }") # fewer cores than ranks: each gets threads
  each=$((${#parts[@]} / $1))
  local IFS=,
  for ((part = 0; part < $1; part++)); do
    echo "${parts[*]:part*each:each}"
  done
}

list_cpus() { # print SOCKET CORE CPU of each CPU that this process may use; a core has the number of its first CPU
  local ranges range cpu socket core place
  IFS=, read -r -a ranges < <(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  for range in "${ranges[@]}"; do
    for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
      place=/sys/devices/system/cpu/cpu$cpu/topology
      { read -r socket < "$place/physical_package_id" && IFS=,- read -r core _ < "$place/thread_siblings_list"; } 2> /dev/null ||
        socket=0 core=$cpu
      echo "$socket $core $cpu"
    done
  done
}
