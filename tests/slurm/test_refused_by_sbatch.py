"""What the real sbatch refuses is NOT_SUBMITTED at once, in its own words; what a plugin changes is shown and kept.

``pytest -s tests/slurm/test_refused_by_sbatch.py`` prints for every kind of refusal the seconds from the call to the
record, and the words.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.core.errors import SchedulerError, Unanswered
from hpclaunch.core.folders import state_folder
from hpclaunch.runs import Run
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run
from tests.slurm.conftest import Cluster
from tests.slurm.desk import Desk
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(900)

# Each refuses in its own way: sbatch's parser, its check of options, the controller's check, limits of accounting.
OPTIONS = {
    "accounting's frequency": ("--acctg-freq=often", "Invalid --acctg-freq specification"),
    "array": ("--array=5-1", "Invalid job array specification"),
    "begin": ("--begin=yesterdayish", "Invalid --begin specification"),
    "burst buffer file": ("--bbf=/nowhere", "Invalid --bbf specification"),
    "cluster": ("--clusters=mars", "mars"),
    "constraint": ("--constraint=quantum", "Invalid feature specification"),
    "core specialization": ("--core-spec=x", "core-spec"),
    "CPU frequency": ("--cpu-freq=fast", "--cpu-freq"),
    "deadline": ("--deadline=2001-01-01", "Requested time limit is invalid"),
    "delay of boot": ("--delay-boot=x", "Invalid --delay-boot specification"),
    "dependency": ("--dependency=afterok:x", "Job dependency problem"),
    "distribution": ("--distribution=chaotic", "Invalid --distribution specification"),
    "exclusive": ("--exclusive=me", "Invalid --exclusive specification"),
    "exclude": ("--exclude=mars", "Invalid node name specified"),
    "export file": ("--export-file=/nowhere", "/nowhere"),
    "group": ("--gid=0", "--gid only permitted by root user"),
    "GPU binding": ("--gpu-bind=tight", "--gpu-bind"),
    "GPU frequency": ("--gpu-freq=loud", "Invalid --gpu-freq argument"),
    "GRES": ("--gres=unicorn:1", "Invalid generic resource (gres) specification"),
    "hint": ("--hint=sideways", "--hint"),
    "invalid dependency": ("--kill-on-invalid-dep=maybe", "Invalid --kill-on-invalid-dep specification"),
    "licences": ("--licenses=matlab:1", "Invalid license specification"),
    "mail": ("--mail-type=NEVERMORE", "Invalid --mail-type specification"),
    "memory": ("--mem=lots", "Invalid --mem specification"),
    "memory twice": ("--mem=1G --mem-per-cpu=1G", "mutually exclusive"),
    "node file": ("--nodefile=/nowhere", "nodefile"),
    "node list": ("--nodelist=mars", "Invalid node name specified"),
    "nodes": ("--nodes=none", "is not a valid node count"),
    "open mode": ("--open-mode=sideways", "Invalid --open-mode specification"),
    "partition": ("--partition=nowhere", "Invalid partition name specified"),
    "profile": ("--profile=everything", "profile"),
    "reboot": ("--reboot", "Access/permission denied"),
    "reservation": ("--reservation=none", "Requested reservation is invalid"),
    "signal": ("--signal=LOUD", "Invalid --signal specification"),
    "switches": ("--switches=x", "--switches"),
    "tasks": ("--ntasks=x", "ntasks"),
    "tasks of a GPU": ("--ntasks-per-gpu=2 --ntasks-per-node=2", "mutually exclusive"),
    "threads": ("--threads-per-core=x", "threads-per-core"),
    "time": ("--time=soon", "Invalid --time specification"),
    "time at least": ("--time-min=10", "Invalid time-min specification"),
    "temporary space": ("--tmp=much", "Invalid --tmp specification"),
    "unknown option": ("--unheard-of", "unheard-of"),
    "user": ("--uid=nobody", "--uid"),
}
SCRIPTS = {
    "empty script": ("", "Batch script is empty!"),
    "no script": ("hello\n", "This does not look like a batch script"),
    "DOS": ("#!/bin/bash\r\nhostname\r\n", "DOS line breaks"),
}
# job_submit_lua: a number of its own, one of Slurm's, and one of the system's; the words are those of its log_user.
PLUGIN = """
function slurm_job_submit(job, partitions, uid)
   local code = string.match(job.comment or "", "^refuse (-?[0-9]+)$")
   if code then
      slurm.log_user("no budget, says the plugin with " .. code)
      return tonumber(code)
   end
   if job.comment == "move" then
      slurm.log_user("your job was moved to debug")
      job.partition = "debug"
   end
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
return slurm.SUCCESS
"""
PLUGINS_CODES = ("-1", "1", "2029", "9999")
CLI_FILTER = """
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
   slurm.log_error("no budget, says the filter")
   return slurm.ERROR
end
function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end
return slurm.SUCCESS
"""
# As some centres have it: on stdout, and in no form of sbatch.
WRAPPER = """#!/bin/bash
echo '--------------------------------------------'
echo '      Welcome to the Test Supercomputer      '
echo '--> Verifying valid submit host...OK'
echo '--> Checking available allocation (none)...FAILED'
exit 1
"""


@pytest.fixture(scope="module")
def plugin(cluster: Cluster) -> Iterator[None]:
    """A site's job_submit plugin, for the tests of this file."""
    conf, file = cluster.conf, cluster.conf.with_name("job_submit.lua")
    before = conf.read_text()
    with as_root():
        file.write_text(PLUGIN)
        conf.write_text(f"{before}\nJobSubmitPlugins=lua\n")
        subprocess.run(["scontrol", "reconfigure"], check=True)
    yield
    with as_root():
        conf.write_text(before)
        file.unlink()
        subprocess.run(["scontrol", "reconfigure"], check=True)


@dataclasses.dataclass(frozen=True)
class Person:
    """One who submits scripts, with Slurm's programs behind others on PATH that note each call."""

    folder: Path

    def refused(self, kind: str, lines: str = "", text: str | None = None) -> Run:
        """Submit a script that is refused, and return its record; print how long it took."""
        folder = self.folder / str(len(os.listdir(self.folder)))
        folder.mkdir()
        run = dataclasses.replace(a_run(folder, state="RENDERED"), token=new_token())
        run = runs.save(dataclasses.replace(run, created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
        runs.list_own(state_folder(os.environ), run)
        usual = f"#!/bin/bash\n#SBATCH --chdir={run.path}\n#SBATCH --output=/dev/null\n#SBATCH --time=5\n"
        own = "".join(f"#SBATCH {line}\n" for line in lines.split("\n") if line)
        (self.folder / "calls").write_text("")
        began = time.monotonic()
        with pytest.raises(SchedulerError) as caught:
            hand_over(run, f"{usual}{own}hostname\n" if text is None else text, 60)
        print(f"{kind:24} {time.monotonic() - began:5.2f} s  {caught.value.faults[0].what}")
        assert not isinstance(caught.value, Unanswered), (kind, caught.value)
        return runs.load(run.path)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().split()


@pytest.fixture
def person(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    programs = workdir / "bin"
    programs.mkdir()
    for name in ("sbatch", "squeue", "sacct"):
        real = shutil.which(name)
        (programs / name).write_text(f'#!/bin/bash\necho {name} >> {workdir}/calls\nexec {real} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(workdir / "state"))
    return Person(workdir)


def test_every_kind_of_refusal_is_one_at_once_and_in_all_words(
    cluster: Cluster, plugin: None, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(kind: str, words: str, lines: str = "", text: str | None = None) -> None:
        run = person.refused(kind, lines, text)
        assert (run.state, run.job_id) == ("NOT_SUBMITTED", ""), kind
        assert words in run.reason, (kind, run.reason)
        assert person.calls() == ["sbatch", "squeue", "sacct"], kind

    for kind, (options, words) in OPTIONS.items():
        check(kind, words, options.replace(" --", "\n--"))
    for kind, (text, words) in SCRIPTS.items():
        # Where no directive names the folder only sbatch's own words are certain, and these are.
        check(kind, words, text=text)
    for code in PLUGINS_CODES:
        check(f"plugin's code {code}", f"no budget, says the plugin with {code}", f"--comment='refuse {code}'")
    (person.folder / "filter").mkdir()
    conf = person.folder / "filter" / "slurm.conf"
    conf.write_text(f"{cluster.conf.read_text()}\nCliFilterPlugins=lua\n")
    conf.with_name("cli_filter.lua").write_text(CLI_FILTER)
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_CONF", str(conf))
        check("filter of sbatch", "no budget, says the filter")
    (person.folder / "bin" / "sbatch").write_text(WRAPPER.replace("\n", f"\necho sbatch >> {person.folder}/calls\n", 1))
    check("filter of a centre", "Welcome to the Test Supercomputer --> Verifying valid submit host...OK --> Checking")
    assert len(OPTIONS) + len(SCRIPTS) + len(PLUGINS_CODES) + 2 >= 40
    mine = ["squeue", "--noheader", "--me", "--states=all", "--format=%Z"]
    assert str(person.folder) not in subprocess.run(mine, capture_output=True, text=True, check=True).stdout


def test_what_a_plugin_says_and_changes_is_shown_and_kept(plugin: None, desk: Desk) -> None:
    desk.job("moved")
    typed = ("--site", "testcluster", "--nodes", "1", "--tasks-per-node", "1", "--walltime", "10:00")
    done = desk.run("submit", "moved", *typed, "--partition", "batch", "--sbatch", "--comment=move", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "sbatch printed:\n  sbatch: your job was moved to debug\n" in done.stderr.replace(
        "sbatch: error: ", "sbatch: "
    )
    assert "warning: the scheduler changed what was asked for: partition debug, not batch\n" in done.stderr
    values = {"nodes": "1", "walltime": "00:10:00", "partition": "debug"}
    assert told["held"].items() >= values.items()
    assert told["differs"] == "partition debug, not batch"
    shown = desk.run("runs", "show", told["run"]).stdout
    assert "partition debug" in shown and "your job was moved to debug" in shown
    (listed,) = json.loads(desk.run("status", "--json", told["run"]).stdout)["runs"]
    assert (listed["held"], listed["differs"]) == (told["held"], told["differs"])


def test_an_array_and_components_are_held_as_asked_for(desk: Desk) -> None:
    desk.job("several", parameters={"seed": 1})
    one = ("--site", "testcluster", "--tasks-per-node", "1", "--walltime", "10:00", "--json")
    done = desk.run("submit", "several", *one, "--nodes", "1", "--sweep", "seed=1,2,3")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["held"]["nodes"], told["held"]["walltime"], told["differs"], told["printed"]) == (
        "1",
        "00:10:00",
        "",
        "",
    )
