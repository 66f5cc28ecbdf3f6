# shellcheck shell=bash
# --- Slurm

slurm_job() {
  leads_astray='SLURM_CLUSTERS SBATCH_CLUSTERS'
  keep_to_own_cluster
  restart=${SLURM_RESTART_COUNT:-0}
  [ -z "${SLURM_JOB_ID-}" ] || signal_by=signal_step
  hangs_by=may_hang
  if [ -n "${HPCLAUNCH_ALLOCATION-}" ]; then # hpclaunch submit --here: the allocation may have other runs as well
    job=by-hand-$$
    unset HPCLAUNCH_ALLOCATION
  elif [ -n "${HPCLAUNCH_ARRAY_DIR-}" ]; then # not SLURM_JOB_ID: for one of the runs that is the ID of the whole array
    job="${SLURM_ARRAY_JOB_ID-}_${SLURM_ARRAY_TASK_ID-}"
  else
    job="${SLURM_JOB_ID:-by-hand-$$}"
  fi
}

slurm_node_gpus() {
  echo "${SLURM_GPUS_ON_NODE-}"
}

slurm_state() {
  local answer lead_ends=${lead_ends:-$((SECONDS + 60))}
  answer=$(patiently squeue_state "$1") || answer=UNKNOWN
  printf '%s' "${answer%%[[:space:]]*}"
}

squeue_state() { # call squeue once; a job that it no longer knows ended some minutes ago
  local answer
  answer=$(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1) ||
    case $answer in
      *'Invalid job id'*) answer= ;;
      *) return 1 ;;
    esac
  printf '%s' "$answer"
}

slurm_hosts() {
  local hosts=${SLURM_JOB_NODELIST-} component name
  if [ "${SLURM_HET_SIZE:-1}" -gt 1 ]; then # each component of a heterogeneous job has a list of its own
    hosts=
    for ((component = 0; component < SLURM_HET_SIZE; component++)); do
      name="SLURM_JOB_NODELIST_HET_GROUP_$component"
      hosts+="${hosts:+,}${!name}"
    done
  fi
  scontrol show hostnames "$hosts" || stop 'scontrol did not list the hosts of this job'
}

slurm_ports() { # SrunPortRange of slurm.conf, which a firewall between nodes lets pass; 0-0 is none
  scontrol show config 2> /dev/null | sed -n 's/^SrunPortRange *= *\([1-9][0-9]*-[1-9][0-9]*\)$/\1/p'
}

slurm_finish() { # Slurm itself ends all processes of a job, but those of a run in an allocation only with that
  [[ "$job" != by-hand-* ]] || end_what_is_left
}

may_hang() { # may_hang LAUNCHER...: srun of Slurm 22.05 sometimes waits for ever at the end of a heterogeneous step with
  # PMIx: its two components stop one agent (pmixp_abort_agent_stop). torchrun may start a rank again, which has left an
  # exit code then.
  [[ "$1" = srun && " $* " != *' torchrun '* ]]
}

signal_step() { # signal_step SIGNAL: send SIGTERM to the tasks of srun's step; false for another signal or launcher, or
  # the second time. srun passes other signals on, but at SIGTERM it kills the tasks.
  local jobs=("${!SLURM_JOB_ID_HET_GROUP_@}") name steps
  [ "$1" = TERM ] && [ "$stepped" = no ] && [ "$(text_of "/proc/$launcher/comm")" = srun ] || return
  [ ${#jobs[@]} -gt 0 ] || jobs=(SLURM_JOB_ID)
  mapfile -t steps < <(for name in "${jobs[@]}"; do # each component of a heterogeneous job has a step of its own
    scontrol --oneliner show step "${!name}" 2> /dev/null
  done | sed -n "s/^StepId=\([^ ]*\) .* SrunHost:Pid=[^ ]*:$launcher\( .*\)\{0,1\}$/\1/p")
  [ ${#steps[@]} -gt 0 ] && stepped=yes && scancel --signal=TERM "${steps[@]}" 2> /dev/null
}

slurm_send() { # no --force: sbcast then writes over no file that another user has made
  SBCAST_SEND_LIBS=no sbcast --timeout=120 "$1" "$2"
}

slurm_on_nodes() { # --mem=0: the memory of the whole job, for what is written to a folder in memory counts
  srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --mem=0 --mpi=none \
    "$@" < /dev/null
}

slurm_memory() {
  if [ "${SLURM_MEM_PER_NODE:-0}" -gt 0 ]; then
    echo "$SLURM_MEM_PER_NODE"
  else
    echo $((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-1}))
  fi
}

slurm_preempted() {
  scontrol --oneliner show job "$job" 2> /dev/null | grep --quiet ' PreemptTime=[0-9]'
}

slurm_requeued() { # Slurm counts a restart as soon as it has decided on it, before it ends this script
  local again
  again=$(scontrol --oneliner show job "$job" 2> /dev/null | sed -n '1s/.* Restarts=\([0-9]*\) .*/\1/p')
  [ "${again:-0}" -gt "$restart" ]
}

slurm_lost_node() { # what srun and slurmstepd wrote since the launch, in the last 16 MiB; srun then ends with 0
  local log="/proc/$$/fd/2" from=$((log_begins + 1)) last
  [ -f "$log" ] || return 0
  last=$(($(stat --dereference --format=%s "$log") - 16777216))
  [ "$last" -lt "$from" ] || from=$last
  tail --bytes=+"$from" "$log" | LC_ALL=C grep --text --max-count=1 --only-matching -E \
    '^(srun: error: Node failure on [^ ]*|slurmstepd[^ ]*: error: [*]{3} (JOB|STEP) [^ ]* .* DUE TO NODE FAILURE)'
}

slurm_skip_steps() { # Slurm counts the steps of each start from 0, and knows a step by its number alone: when the old
  # ranks end at last, it would end this start's step of that number. A start has two at most up to its ranks.
  local step
  for ((step = 0; step < 2 * restart && step < 40; step++)); do
    timeout 60 srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --mem=0 --mpi=none /bin/true < /dev/null > /dev/null 2>&1
  done
}

slurm_requeue() {
  patiently scontrol requeue "$job"
}

slurm_resubmit() ( # the successor must not get this job's variables
  exclude=$(scontrol --oneliner show job "$job" 2> /dev/null | sed -n '1s/.* ExcNodeList=\([^ (]*\).*/\1/p')
  for name in "${!SLURM_@}" "${!SBATCH_@}" "${!SRUN_@}" "${!PMI@}" "${!OMPI_@}"; do
    [ "$name" = SLURM_CONF ] || unset "$name"
  done
  sbatch --parsable --dependency="afterany:$job" ${exclude:+"--exclude=$exclude"} "$HPCLAUNCH_RUN_DIR/job.sh"
)
