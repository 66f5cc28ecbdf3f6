"""One home on two clusters with equal job IDs, and a cluster that was set up again: no other job is read or ended."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import leave_proof
from tests.cli.conftest import Desk, Done

# The programs of one cluster. FOLDER/jobs has its jobs as ID|STATE|WORKING FOLDER|SUBMITTED (seconds of the epoch);
# FOLDER/calls has PROGRAM and IDs. All clusters have one slurmdbd, so that --clusters reaches the others, and so does
# SLURM_CLUSTERS for all programs but sacct. With FOLDER/moves a plugin sends each job to the cluster that it names.
SLURM = """#!/bin/bash
program=${{0##*/}}
asked=
clusters=
[ $program = sacct ] || clusters=${{SLURM_CLUSTERS-}}
for word in "$@"; do
  case $word in
    --jobs=*) asked=${{word#--jobs=}} ;;
    --clusters=*) clusters=${{word#--clusters=}} ;;
  esac
done
words=()
for word in "$@"; do
  [[ $word == --clusters=* ]] || words+=("$word")
done
set -- "${{words[@]}}"
if [ $program = sbatch ] && [ -z "$clusters" ] && [ -e {folder}/moves ]; then
  clusters=$(< {folder}/moves)
fi
if [ -n "$clusters" ]; then
  known=
  for one in ${{clusters//,/ }}; do
    if [ ! -e {folder}/../$one/bin ]; then
      echo "$program: error: No cluster '$one' known by database." >&2
      continue
    fi
    known=yes
    CLUSTER=$one SLURM_CLUSTERS= {folder}/../$one/bin/$program "$@" || exit
    [ $program != sbatch ] || exit 0
  done
  [ -z "$known" ] || exit 0
  [ $program != sacct ] || exit 0
  echo "$program: error: '$clusters' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list\
 clusters' to see available clusters." >&2
  exit 1
fi
[ "$program" != scancel ] || asked=$*
echo "$program ${{asked//,/ }}" >> {folder}/calls
jobs=()
[ ! -e {folder}/jobs ] || mapfile -t jobs < {folder}/jobs
case $program in
  scontrol) printf 'ClusterName             = {name}\\nSlurmctldHost[0]        = {controller}(10.0.0.1)\\n' ;;
  sbatch)
    while IFS= read -r line; do
      case $line in '#SBATCH --chdir='*) folder=${{line#*=}} ;; esac
    done < "${{@: -1}}"
    echo "$((${{#jobs[@]}} + 1))|RUNNING|$folder|$EPOCHSECONDS" >> {folder}/jobs
    echo "Submitted batch job $((${{#jobs[@]}} + 1))${{CLUSTER:+ on cluster $CLUSTER}}" ;;
  squeue | sacct)
    for job in "${{jobs[@]}}"; do
      IFS='|' read -r id state folder when <<< "$job"
      [ "${{SLURM_TIME_FORMAT-}}" = %s ] || when=2026-11-28T00:00:00
      case $state in COMPLETED) code=0:0 ;; *) code=1:0 ;; esac
      [[ -z $asked || ",$asked," == *",$id,"* ]] || continue
      case "$program $state" in
        'squeue RUNNING' | 'squeue PENDING') ;;
        squeue*) continue ;;
      esac
      case "$*" in
        *'%N|%Z'*) echo "$id|$state|None|node1|$folder" ;;
        *'%N|%V|%Z'*) echo "$id|$state|None|node1|$when|$folder" ;;
        *NodeList,WorkDir*) echo "$id|$state|$code|node1|$folder" ;;
        *NodeList,Cluster,Submit,WorkDir*) echo "$id|$state|$code|node1|{name}|$when|$folder" ;;
        *ConsumedEnergyRaw,Cluster,Submit,WorkDir*) echo "$id|100|1|1|00:10:00|cpu=1||0|{name}|$when|$folder" ;;
        *'%P|%Q|%S|%V|%Z'*) echo "$id|batch|1|N/A|$when|$folder" ;;
        *'=%i|%V|%Z'*) echo "$id|$when|$folder" ;;
        *) echo "unknown format: $*" >&2; exit 1 ;;
      esac
    done ;;
esac
"""
PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "srun", "sacctmgr", "sshare", "sinfo")


@dataclass(frozen=True)
class Cluster:
    """A cluster with its own controller; its login node has the same home."""

    desk: Desk
    name: str

    @property
    def folder(self) -> Path:
        return self.desk.root / self.name

    def set_up(self, controller: str) -> None:
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        for program in PROGRAMS:
            path = self.folder / "bin" / program
            path.write_text(SLURM.format(folder=self.folder, name=self.name, controller=controller))
            path.chmod(0o755)

    def type(self, *words: str, **variables: str) -> Done:
        """Type on the login node of this cluster."""
        path = f"{self.folder}/bin:{self.desk.root}/tools"
        return self.desk.type(*words, **{"PATH": path, "HPCLAUNCH_SITE": "slurmsite", **variables})

    def submit(self) -> Path:
        done = self.type("submit", "./train.py", "--json")
        assert done.code == 0, done.err
        return Path(done.json["run_dir"])

    def jobs(self, *lines: str, submitted: float | None = None) -> None:
        """Replace the jobs of the cluster. They were ``submitted`` then, in seconds of the epoch; now if it is None."""
        when = int(time.time() if submitted is None else submitted)
        (self.folder / "jobs").write_text("".join(f"{line}|{when}\n" for line in lines))

    def calls(self) -> list[list[str]]:
        """The calls since the last question, each as a program and the job IDs that it was given."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return [line.split() for line in lines]


@pytest.fixture
def alpha(cluster: Desk) -> Cluster:
    found = Cluster(cluster, "alpha")
    found.set_up("a1")
    return found


@pytest.fixture
def beta(cluster: Desk) -> Cluster:
    """The other cluster, whose jobs 1, 2 and 3 are those of somebody's other folders."""
    found = Cluster(cluster, "beta")
    found.set_up("b1")
    found.jobs(*(f"{number}|RUNNING|/elsewhere/{number}" for number in (1, 2, 3)))
    return found


def record(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "run.json").read_text())
    return found


def last_state(run: Path) -> str:
    return str(json.loads((run / "states.jsonl").read_text().splitlines()[-1])["state"])


VERBS = [
    "status",
    "status RUNNING",
    "status --watch",
    "logs RUNNING",
    "logs -f RUNNING",
    "wait RUNNING",
    "wait FAILED --retries 3",
    "cancel RUNNING",
    "cancel LOST",
    "cancel --all --yes",
    "retry RUNNING",
    "retry FAILED",
    "resume RUNNING",
    "resume FAILED",
    "resume FAILED --nodes 2",
    "results",
    "runs list",
    "runs show RUNNING",
    "runs compare RUNNING FAILED",
    "runs clean RUNNING --yes",
    "runs rebuild",
    "doctor --from RUNNING",
    "profile ./train.py --from RUNNING",
]
REFUSED = [
    *("logs -f RUNNING", "wait RUNNING", "cancel RUNNING", "cancel LOST", "retry RUNNING", "retry FAILED"),
    *("resume RUNNING", "resume FAILED", "resume FAILED --nodes 2"),
]


def test_no_verb_reads_or_ends_the_other_clusters_job_of_the_same_id(alpha: Cluster, beta: Cluster) -> None:
    running, failed, lost = alpha.submit(), alpha.submit(), alpha.submit()
    alpha.jobs(f"1|RUNNING|{running}", f"2|NODE_FAIL|{failed}", f"3|RUNNING|{lost}")
    assert alpha.type("status").code == 0
    assert (last_state(running), last_state(failed)) == ("RUNNING", "NODE_FAIL")
    text = json.dumps({**record(lost), "state": "SUBMITTING", "job_id": ""})
    (lost / "run.json").write_text(text)
    (lost / "states.jsonl").unlink()
    os.utime(lost / "run.json", (1, 1))
    before = {run: (run / "run.json").read_bytes() for run in (running, failed, lost)}
    names = {"RUNNING": running.name, "FAILED": failed.name, "LOST": lost.name}
    beta.calls()
    rows = []
    for verb in VERBS:
        done = beta.type(*(names.get(word, word) for word in verb.split()))
        calls = beta.calls()
        read = sum(len(call) > 1 for call in calls if call[0] in ("squeue", "sacct"))
        ended, started = (sum(call[0] == program for call in calls) for program in ("scancel", "sbatch"))
        rows.append((verb, done.code, read, ended, started))
        if verb in REFUSED:
            assert done.code == 1, (verb, done.err)
            assert re.search("log in to alpha and type there: hpclaunch (status|resume)", done.err), (verb, done.err)
    for verb, code, read, ended, started in rows:
        print(f"{verb:<30} exit {code}  jobs read {read}  ended {ended}  started {started}")
    assert [row for row in rows if row[2:] != (0, 0, 0)] == []
    assert {run: (run / "run.json").read_bytes() for run in before} == before
    (shown,) = [row for row in beta.type("status", "--json").runs if row["run"] == running.name]
    assert (shown["state"], shown["cluster"], shown["controller"]) == ("RUNNING", "alpha", "a1")
    assert "is a run of the cluster alpha (controller a1)" in shown["reason"]
    assert alpha.type("cancel", running.name).code == 0
    assert ["scancel", "1"] in alpha.calls()


ENDED_VERBS = [
    *("status", "status ONE", "status --json", "logs ONE", "logs @latest", "wait ONE", "wait TWO", "cancel ONE"),
    *("results", "runs list", "runs show ONE", "runs compare ONE TWO", "runs rebuild", "efficiency ONE", "report ONE"),
    *("doctor --from ONE", "profile ./train.py --from TWO", "cancel --all --yes", "status --watch", "watch"),
    *("runs clean --older-than 30d --yes", "retry ONE", "resume TWO"),
]


@pytest.mark.parametrize("numbers", ["equal", "begin again"])
def test_no_verb_changes_an_ended_run_when_its_number_belongs_to_another_run(
    alpha: Cluster, beta: Cluster, numbers: str
) -> None:
    """Other runs of the same home, which have ended otherwise: on another cluster, or on one that was set up again."""
    one, two = alpha.submit(), alpha.submit()
    alpha.jobs(f"1|FAILED|{one}", f"2|COMPLETED|{two}")
    leave_proof(two, "2.0")
    assert alpha.type("status").code == 0
    there = beta if numbers == "equal" else alpha
    there.jobs()
    foreign = [there.submit(), there.submit()]
    assert [record(run)["job_id"] for run in foreign] == ["1", "2"]
    there.jobs(f"1|COMPLETED|{foreign[0]}", f"2|FAILED|{foreign[1]}")
    leave_proof(foreign[0], "1.0")
    before = {run: (run / "run.json").read_bytes() + (run / "states.jsonl").read_bytes() for run in (one, two)}
    names = {"ONE": one.name, "TWO": two.name}
    for verb in ENDED_VERBS:
        if numbers == "begin again" and verb in ("retry ONE", "resume TWO"):
            continue  # these are allowed to start them again there
        there.type(*(names.get(word, word) for word in verb.split()))
        now = {run: (run / "run.json").read_bytes() + (run / "states.jsonl").read_bytes() for run in before}
        assert now == before, verb
    told = {row["run"]: (row["state"], row["exit_code"]) for row in there.type("status", "--json").runs}
    assert told[one.name] == ("FAILED", "1:0") and told[two.name] == ("COMPLETED", "0:0")
    assert told[foreign[0].name] == ("COMPLETED", "0:0") and told[foreign[1].name] == ("FAILED", "1:0")
    assert [there.type("wait", run.name).code for run in (one, two, *foreign)] == [1, 0, 0, 1]
    efficiency = there.type("efficiency", one.name, "--json")
    assert '"accounting"' not in efficiency.out, "the other run's account is not this one's"


def test_an_ended_run_gets_its_exit_code_later_but_no_other_state(alpha: Cluster) -> None:
    run = alpha.submit()
    alpha.jobs(f"1|RUNNING|{run}")
    assert alpha.type("status").code == 0
    fail = json.dumps({**record(run), "state": "FAILED", "job_id": "1", "exit_code": ""})
    (run / "run.json").write_text(fail)
    (run / "states.jsonl").write_text("")  # as squeue told it, shortly before sacct knew the code
    for state in ("TIMEOUT", "COMPLETED", "RUNNING"):
        alpha.jobs(f"1|{state}|{run}")
        (told,) = alpha.type("status", "--json").runs
        assert (told["state"], told["exit_code"]) == ("FAILED", ""), state
    alpha.jobs(f"1|FAILED|{run}", submitted=time.time() - 2 * 3600)
    assert alpha.type("status", "--json").runs[0]["exit_code"] == "", "an earlier job of the same number and folder"
    alpha.jobs(f"1|FAILED|{run}")
    assert alpha.type("status", "--json").runs[0]["exit_code"] == "1:0"


def test_a_start_again_never_gets_the_number_of_an_earlier_one(alpha: Cluster) -> None:
    """Its markers are in the run directory, under that number."""
    run = alpha.submit()
    alpha.jobs(f"1|NODE_FAIL|{run}")
    assert alpha.type("status", run.name, "--json").runs[0]["state"] == "NODE_FAIL"
    alpha.jobs()  # the cluster was set up again: the next job is 1 once more
    alpha.calls()
    done = alpha.type("retry", run.name, "--json")
    assert (done.code, done.json["job_id"]) == (0, "2"), done.err
    calls = [call for call in alpha.calls() if call[0] in ("sbatch", "scancel")]
    assert [call[0] for call in calls] == ["sbatch", "scancel", "sbatch"] and calls[1] == ["scancel", "1"]


def test_a_job_that_got_the_id_of_an_old_run_is_not_ended_and_the_old_run_can_be_closed(alpha: Cluster) -> None:
    old = alpha.submit()
    alpha.jobs()  # the cluster was set up again: its numbers begin again
    new = alpha.submit()
    assert record(old)["job_id"] == record(new)["job_id"] == "1"
    alpha.jobs(f"1|RUNNING|{new}")
    (told,) = alpha.type("status", old.name, "--json").runs
    assert (told["state"], told["reason"]) == ("UNKNOWN", f"job 1 is another one by now, with the working folder {new}")
    alpha.calls()
    done = alpha.type("cancel", old.name)
    assert (done.code, f"hpclaunch runs forget {old.name}" in done.err) == (1, True), done.err
    assert not [call for call in alpha.calls() if call[0] == "scancel"]
    asked = alpha.type("runs", "forget", old.name)
    assert (asked.code, last_state(old), "nothing was changed" in asked.err) == (1, "UNKNOWN", True)
    assert "It cancels no job" in asked.err
    (closed,) = alpha.type("runs", "forget", old.name, "--yes", "--json").runs
    assert (closed["state"], "its last known state was UNKNOWN" in closed["reason"]) == ("FORGOTTEN", True)
    alpha.calls()
    assert alpha.type("status", old.name, "--json").runs[0]["state"] == "FORGOTTEN"
    assert alpha.calls() == [], "a closed run is not asked about"
    refused = alpha.type("runs", "forget", new.name, "--yes")
    assert (refused.code, f"{new.name} is RUNNING" in refused.err) == (1, True)
    assert alpha.type("cancel", new.name).code == 0
    assert ["scancel", "1"] in alpha.calls()


def test_the_run_of_a_cluster_that_is_gone_can_be_closed(alpha: Cluster, beta: Cluster) -> None:
    run = alpha.submit()
    beta.calls()
    (closed,) = beta.type("runs", "forget", run.name, "--yes", "--json").runs
    assert (closed["state"], "its last known state was PENDING" in closed["reason"]) == ("FORGOTTEN", True)
    assert not [call for call in beta.calls() if len(call) > 1]


def test_a_run_of_another_cluster_whose_end_is_known_is_not_closed(alpha: Cluster, beta: Cluster) -> None:
    run = alpha.submit()
    alpha.jobs(f"1|COMPLETED|{run}")
    leave_proof(run, "1.0")
    assert alpha.type("status", run.name).code == 0
    before = (run / "states.jsonl").read_text()
    done = beta.type("runs", "forget", run.name, "--yes")
    assert (done.code, "has ended: it is" in done.err) == (1, True), done.err
    assert (run / "states.jsonl").read_text() == before


def test_two_clusters_of_one_name_are_told_apart_by_the_working_folder(cluster: Desk) -> None:
    one = Cluster(cluster, "linux")
    one.set_up("head1")
    run = one.submit()
    one.set_up("head2")  # another controller with the same cluster name
    one.jobs("1|RUNNING|/elsewhere/1")
    one.calls()
    assert one.type("status", run.name, "--json").runs[0]["state"] == "UNKNOWN"
    assert one.type("cancel", run.name).code == 1
    assert not [call for call in one.calls() if call[0] == "scancel"]
    one.jobs(f"1|RUNNING|{run}")  # the controller has moved, and has the job
    assert one.type("status", run.name, "--json").runs[0]["state"] == "RUNNING"
    assert one.type("cancel", run.name).code == 0
    assert ["scancel", "1"] in one.calls()


def test_the_script_of_an_older_record_is_not_given_to_another_sites_scheduler(alpha: Cluster, beta: Cluster) -> None:
    """A record of an earlier version names no cluster: the site of the machine tells."""
    run = alpha.submit()
    alpha.jobs(f"1|NODE_FAIL|{run}")
    assert alpha.type("status", run.name, "--json").runs[0]["state"] == "NODE_FAIL"
    older = {**record(run), "cluster": "", "controller": ""}
    (run / "run.json").write_text(json.dumps(older))
    site = (alpha.desk.project / "site_configs/slurmsite.yaml").read_text()
    alpha.desk.write("site_configs/betasite.yaml", f"{site}\ndetect: {{environment: {{WHERE: beta}}}}\n")
    beta.calls()
    for verb in ("retry", "resume"):
        done = beta.type(verb, run.name, HPCLAUNCH_SITE="", WHERE="beta")
        what = f"the script of {run.name} is for the site slurmsite, and this machine belongs to betasite"
        assert (done.code, what in done.err) == (1, True), done.err
    assert not [call for call in beta.calls() if call[0] == "sbatch"]
    assert alpha.type("retry", run.name).code == 0


def send(here: Cluster, *options: str, **variables: str) -> Path:
    done = here.type("submit", "./train.py", "--json", *options, **variables)
    assert done.code == 0, done.err
    return Path(done.json["run_dir"])


@pytest.mark.parametrize("option", ["--clusters=beta", "-Mbeta", "-M beta"])
def test_a_run_that_is_sent_to_another_cluster_is_followed_and_ended_there(
    alpha: Cluster, beta: Cluster, option: str
) -> None:
    """The job of its number here is somebody else's, and the one of a run that stays here is another one there."""
    alpha.jobs(*(f"{number}|RUNNING|/elsewhere/{number}" for number in (1, 2, 3)))
    stays, sent = alpha.submit(), send(alpha, f"--sbatch={option}")
    assert record(stays)["job_id"] == record(sent)["job_id"] == "4"
    assert (record(stays)["cluster"], record(stays)["via"]) == ("alpha", "")
    assert (record(sent)["cluster"], record(sent)["via"], record(sent)["controller"]) == ("beta", "alpha", "")
    alpha.calls(), beta.calls()
    told = {row["run"]: row["state"] for row in alpha.type("status", "--json").runs}
    assert told == {stays.name: "RUNNING", sent.name: "RUNNING"}
    assert [call for call in alpha.calls() if call[0] == "squeue"] == [["squeue", "4"]]
    assert beta.calls() == [["squeue", "4"]]
    assert beta.type("status", sent.name, "--json").runs[0]["state"] == "RUNNING"
    alpha.calls(), beta.calls()
    assert alpha.type("cancel", sent.name).code == 0
    assert not [call for call in alpha.calls() if len(call) > 1]
    assert [call for call in beta.calls() if call[0] == "scancel"] == [["scancel", "4"]]
    beta.jobs(*(f"{number}|RUNNING|/elsewhere/{number}" for number in (1, 2, 3)), f"4|NODE_FAIL|{sent}")
    (ended,) = alpha.type("status", sent.name, "--json").runs
    assert ended["state"] == "NODE_FAIL"
    assert alpha.type("status", stays.name, "--json").runs[0]["state"] == "RUNNING"
    again = alpha.type("retry", sent.name, "--json")
    assert (again.code, again.json["job_id"], again.json["cluster"]) == (0, "5", "beta"), again.err


def test_who_uses_one_cluster_is_asked_nothing_more(alpha: Cluster, beta: Cluster) -> None:
    run = alpha.submit()
    assert [call[0] for call in alpha.calls()] == ["scontrol", "scontrol", "scontrol", "sbatch", "squeue"]
    assert alpha.type("status").code == 0
    assert [call[0] for call in alpha.calls()] == ["scontrol", "scontrol", "squeue"]
    assert (alpha.type("cancel", run.name).code, beta.calls()) == (0, [])


@pytest.mark.parametrize("clusters", ["beta,alpha", "alpha,beta", "mars,beta"])
def test_of_several_clusters_the_answer_names_the_one(alpha: Cluster, beta: Cluster, clusters: str) -> None:
    run = send(alpha, f"--sbatch=--clusters={clusters}")
    chosen = next(name for name in clusters.split(",") if name != "mars")
    assert (record(run)["cluster"], record(run)["via"]) == (chosen, "" if chosen == "alpha" else "alpha")
    assert alpha.type("status", run.name, "--json").runs[0]["state"] == "RUNNING"


def test_a_cluster_that_was_not_asked_for_is_believed_if_sbatch_names_it(alpha: Cluster, beta: Cluster) -> None:
    (alpha.folder / "moves").write_text("beta")
    run = alpha.submit()
    assert (record(run)["job_id"], record(run)["cluster"], record(run)["via"]) == ("4", "beta", "alpha")
    assert alpha.type("status", run.name, "--json").runs[0]["state"] == "RUNNING"
    assert alpha.type("cancel", run.name).code == 0
    assert ["scancel", "4"] in beta.calls()
    assert not [call for call in alpha.calls() if call[0] == "scancel"]


def test_a_cluster_that_nobody_knows_gets_nothing_and_leaves_no_doubt(alpha: Cluster, beta: Cluster) -> None:
    done = alpha.type("submit", "./train.py", "--sbatch=--clusters=mars")
    assert (done.code, "'mars' can't be reached now" in done.err) == (1, True), done.err
    (told,) = alpha.type("status", "--json").runs
    assert (told["state"], told["job_id"]) == ("NOT_SUBMITTED", "")


@pytest.mark.parametrize("sent_by", ["an option", "a variable"])
def test_a_submission_that_was_interrupted_is_found_where_it_was_sent(
    alpha: Cluster, beta: Cluster, sent_by: str
) -> None:
    option = ("--sbatch=--clusters=mars,beta",) if sent_by == "an option" else ()
    variables = {} if option else {"SLURM_CLUSTERS": "beta"}
    run = send(alpha, *option, **variables)
    lost = {**record(run), "state": "SUBMITTING", "job_id": "", "cluster": "mars,beta" if option else "beta"}
    (run / "run.json").write_text(json.dumps(lost))
    (run / "states.jsonl").unlink()
    for lease in (run / "submitting").glob("*"):
        lease.unlink()
    (told,) = alpha.type("status", run.name, "--json").runs
    assert (told["state"], told["job_id"], told["cluster"]) == ("RUNNING", "4", "beta")


@pytest.mark.parametrize("how", ["--as-is", "--from-script"])
def test_a_batch_script_goes_to_the_cluster_that_it_names(alpha: Cluster, beta: Cluster, how: str) -> None:
    alpha.desk.write("t.slurm", "#!/bin/bash\n#SBATCH --clusters=beta\nsrun python3 ./train.py\n")
    words = (how, "./t.slurm") if how == "--as-is" else (how, "./t.slurm", "--nodes", "1")
    shown = alpha.type("submit", *words, "--dry-run")
    assert "cluster beta" in " ".join(shown.err.split()), shown.err
    done = alpha.type("submit", *words, "--json")
    assert done.code == 0, done.err
    assert (done.json["cluster"], done.json["via"]) == ("beta", "alpha")
    assert alpha.type("cancel", done.json["run"]).code == 0
    assert ["scancel", done.json["job_id"]] in beta.calls()


def test_a_variable_of_the_shell_reaches_a_run_that_was_submitted_there(alpha: Cluster, beta: Cluster) -> None:
    run = beta.submit()
    assert "log in to beta and type there" in alpha.type("cancel", run.name).err
    assert alpha.type("status", run.name, "--json", SLURM_CLUSTERS="beta").runs[0]["state"] == "RUNNING"
    assert alpha.type("cancel", run.name, SLURM_CLUSTERS="beta").code == 0
    assert ["scancel", record(run)["job_id"]] in beta.calls()


def test_a_variable_of_the_shell_leads_no_question_about_a_run_of_this_cluster_astray(
    alpha: Cluster, beta: Cluster
) -> None:
    run = alpha.submit()
    beta.calls()
    assert alpha.type("status", run.name, "--json", SLURM_CLUSTERS="beta").runs[0]["state"] == "RUNNING"
    assert alpha.type("cancel", run.name, SLURM_CLUSTERS="beta").code == 0
    assert beta.calls() == []


def test_a_job_waits_for_a_run_on_its_own_cluster_alone(alpha: Cluster, beta: Cluster) -> None:
    first = send(alpha, "--sbatch=-M beta")
    refused = alpha.type("submit", "./train.py", "--after", first.name)
    assert (refused.code, "is on the cluster beta, and a job can wait only" in refused.err) == (1, True), refused.err
    second = send(alpha, "--sbatch=-M beta", "--after", first.name)
    assert "#SBATCH --dependency=afterok:4\n" in (second / "job.sh").read_text()


def test_the_run_of_another_user_is_shown_as_theirs_and_left_alone(alpha: Cluster) -> None:
    run = alpha.submit()
    alpha.jobs(f"1|RUNNING|{run}")
    theirs = json.dumps({**record(run), "uid": "4242", "user": "ada"})
    (run / "run.json").write_text(theirs)
    alpha.calls()
    (shown,) = alpha.type("status", "--json").runs
    assert shown["reason"].startswith("belongs to ada (uid 4242)")
    for words in (["cancel"], ["wait"], ["retry"], ["resume"], ["runs", "clean", "--yes"], ["runs", "forget", "--yes"]):
        done = alpha.type(*words, run.name)
        assert (done.code, "belongs to ada (uid 4242)" in done.err) == (1, True), (words, done.err)
    assert not [call for call in alpha.calls() if call[0] in ("squeue", "sacct", "scancel", "sbatch")]
    assert (run / "run.json").read_text() == theirs


def test_a_record_of_a_newer_version_is_one_clear_error(alpha: Cluster) -> None:
    run = alpha.submit()
    assert record(run)["format"] == 1
    newer = json.dumps({**record(run), "format": 3})
    (run / "run.json").write_text(newer)
    for words in (["status"], ["cancel"], ["logs"], ["runs", "show"], ["runs", "forget", "--yes"]):
        done = alpha.type(*words, run.name)
        assert (done.code, done.err.count("a newer hpclaunch wrote this record: it has format 3")) == (1, 1), done.err
    assert f"skipped 1 run that a newer hpclaunch wrote: {run}" in alpha.type("status").err
    assert alpha.type("runs", "rebuild", "--json").json["forgotten"] == []
    assert (run / "run.json").read_text() == newer
