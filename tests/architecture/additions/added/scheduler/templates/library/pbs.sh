# shellcheck shell=bash
# --- PBS

pbs_job() {
  job=${PBS_JOBID:-by-hand-$$}
  job=${job%%.*}
}

pbs_state() {
  local answer
  answer=$(qstat -x -f "$1") || { echo UNKNOWN; return; }
  case $answer in
    *'job_state = R'*) echo RUNNING ;;
    *'job_state = F'*) ;;
    *) echo PENDING ;;
  esac
}

pbs_hosts() {
  sort --unique "$PBS_NODEFILE"
}

pbs_node_gpus() { # PBS does not say
  :
}

pbs_ports() { # PBS keeps none
  :
}

pbs_finish() { # PBS ends what is left of a job
  :
}

pbs_preempted() { # it suspends jobs, and tells no script
  false
}

pbs_requeued() { # a job that it starts again keeps nothing that tells of it
  false
}

pbs_lost_node() { # it ends the whole job
  :
}

pbs_skip_steps() { # a start of PBS has no steps
  :
}

pbs_requeue() {
  patiently qrerun "$job"
}

pbs_resubmit() {
  qsub -W "depend=afterany:$job" "$HPCLAUNCH_RUN_DIR/job.sh" | cut --delimiter=. --fields=1
}
