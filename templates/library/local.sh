# shellcheck shell=bash
# --- A machine without a scheduler

local_job() {
  local name
  job="${SUBMITIT_LOCAL_JOB_ID:-by-hand-$$}"
  # Variables of an MPI program or a Slurm job from which this script was started would mislead the ranks.
  for name in "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" "${!OMPI_COMM_@}" "${!OMPI_MCA_@}" "${!HOROVOD_@}"; do
    unset "$name"
  done
}

local_state() { # no scheduler keeps a list of jobs: the state is that of the processes
  state_of_process "${@:2}"
}

local_preempted() { # no scheduler takes this machine away
  false
}

local_requeued() { # no scheduler starts a job again
  false
}

local_lost_node() { # this machine is the only node
  :
}

local_hosts() {
  if [ -e "$HPCLAUNCH_RUN_DIR/hosts" ]; then
    cut --delimiter=' ' --fields=1 "$HPCLAUNCH_RUN_DIR/hosts" || stop 'the list of hosts cannot be read'
  else
    echo localhost
  fi
}

local_ports() {
  :
}

local_finish() { # end processes that the ranks left, as Slurm does
  end_what_is_left
}
