"""A launcher, a site, an optimizer, a scheduler and a container runtime are added to a copy of the tree, by the files
that CONTRIBUTING.md names for them and by no other, and each is used."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.additions.house import House
from tests.cli.conftest import Desk, wait_for

PROGRAMS = Path(__file__).parent / "programs"
LAUNCHER = '''\
def mpiexec(launch: Launch) -> tuple[str, ...]:
    """MPICH's, which is Hydra: it takes the nodes from a file, or is on one node."""
    layout = launch.layout
    hosts = ["-f", launch.hosts_file] if launch.hosts_file else []
    return ("mpiexec", "-n", str(layout.world_size), "-ppn", str(layout.tasks_per_node), *hosts, *launch.extra)


'''
LAUNCHER_ROW = """\
    "mpiexec": LauncherRow(argv=mpiexec, programs=("mpiexec",), rank_variables=("PMI_RANK",), over_ssh=True),
"""
SCHEDULER_ROW = """\
    "pbs": SchedulerRow(
        title="PBS",
        module="pbs.scheduler",
        template="pbs.sh.j2",
        has_queue=True,
        writes=frozenset({"account", "memory", "gpus_per_node", "array"}),
        start_command="qsub",
        programs=("qsub", "qstat", "qdel"),
        needs_all_programs=True,
        programs_hint="log in to the site",
        usual_launcher="mpirun",
        first_state="PENDING",
        array_index="PBS_ARRAY_INDEX",
        script_signals=(),
        assigns_gpus=True,
        binds_cpus=False,
        keeps_shell_out=True,
        remembers_cancelled=True,
        first_pause_s=0.1,
        longest_pause_s=0.1,
    ),
"""
DESK_SITE = """\
title: this desk
scheduler: local
defaults: {node_type: box}
node_types: {box: {title: it, cores_per_node: 2}}
launchers: {default: mpiexec, options: {mpiexec: {}}}
"""
QUEUE_SITE = """\
title: a cluster under PBS
scheduler: pbs
defaults: {node_type: cpu, partition: work, walltime: "00:10:00"}
node_types:
  cpu: {title: x, nodes: 4, cores_per_node: 2}
  gpu: {title: x, nodes: 4, cores_per_node: 8, gpus_per_node: 4}
  a100: {title: x, nodes: 4, cores_per_node: 8, gpus_per_node: 4, gpu_type: a100}
partitions: {work: {max_nodes: 4}}
launchers: {default: direct, options: {direct: {}, mpirun: {}}}
restart: resubmit
"""
RUNTIME = '''\
def _charliecloud(asked: ContainerRequest) -> ContainerCommand:
    """Charliecloud: the image is a folder; ``--bind`` shows a folder inside (manual of ch-run)."""
    binds = tuple(word for folder in asked.folders for word in ("--bind", folder))
    return ContainerCommand(prefix=("ch-run", *binds, *asked.options, asked.image, "--"))


'''
RUNTIME_ROW = """\
    "charliecloud": RuntimeRow(command=_charliecloud, program="ch-run"),
"""
BOXES = """\
title: a cluster with charliecloud
scheduler: slurm
defaults: {node_type: cpu, partition: work, walltime: "00:10:00"}
node_types: {cpu: {title: x, nodes: 4, cores_per_node: 2}}
partitions: {work: {max_nodes: 4}}
launchers: {default: srun, options: {srun: {mpi: pmix}}}
container: {runtime: charliecloud, options: [--write-fake]}
environment: {container: /images/tf}
"""
OPTIMIZER = """\
def _lion(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.lion import Lion

    return Lion(rate, **_decay(asked))


"""
STEPS = """\
import json, sys
import tensorflow as tf
from hpclaunch.training import options
from hpclaunch.training.optimization import optimizers, techniques

asked = techniques.parse(options.parser("a test", {"from": "samples"}), sys.argv[1:])
assert techniques.faults(asked) == []
optimizer = optimizers.from_options(asked, 0.5)
weights = tf.Variable([[1.0, -2.0]])
for gradient in ([[3.0, 0.0]], [[-0.1, -4.0]]):
    optimizer.apply_gradients([(tf.constant(gradient), weights)])
print(json.dumps(weights.numpy().tolist()))
"""
NAMES = {
    "launcher": "mpiexec",
    "site": "isle",
    "optimizer": "lion",
    "scheduler": "pbs",
    "container runtime": "charliecloud",
}


def add_launcher(house: House) -> None:
    house.edit(
        "hpclaunch/launchers.py",
        ("def ibrun(launch: Launch)", LAUNCHER),
        ('    "ibrun": LauncherRow(', LAUNCHER_ROW),
        ('"-np": 1, "--map-by": 1', '"-n": 1, "-ppn": 1, "-f": 1, '),
    )


def add_optimizer(house: House) -> None:
    house.edit(
        "hpclaunch/training/parameters.json",
        ('"sgd"], "help": "the optimizer"', '"lion", '),
        ('"muon"]},\n    "momentum"', '"lion", '),
    )
    house.edit(
        "hpclaunch/training/optimization/optimizers.py",
        (
            "ROWS = {\n",
            OPTIMIZER,
        ),
        ('    "sgd": Row(_sgd),\n', '    "lion": Row(_lion, is_adaptive=True),\n'),
    )
    house.edit("hpclaunch/guidelines/memory.py", ('"adam": 2, "adamw": 2', '"lion": 1, '))
    house.edit(
        "hpclaunch/guidelines/optimizers.py",
        ('    "larc": OptimizerRules(', '    "lion": OptimizerRules(by_root=True),\n'),
    )


def add_scheduler(house: House) -> None:
    house.edit("hpclaunch/core/scheduler_rows.py", ('    "local": SchedulerRow(\n', SCHEDULER_ROW))


def add_runtime(house: House) -> None:
    house.edit(
        "hpclaunch/core/runtime_rows.py",
        ("def _pyxis(asked", RUNTIME),
        ('    "apptainer": RuntimeRow(', RUNTIME_ROW),
    )


EDITS: dict[str, Callable[[House], None]] = {
    "launcher": add_launcher,
    "site": lambda house: None,
    "optimizer": add_optimizer,
    "scheduler": add_scheduler,
    "container runtime": add_runtime,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], House]:
    """The copy with one addition, made once."""
    houses: dict[str, House] = {}

    def build(what: str) -> House:
        if what not in houses:
            house = House(root=tmp_path_factory.mktemp(what.replace(" ", "-")), what=what, name=NAMES[what])
            house.build()
            EDITS[what](house)
            houses[what] = house
        return houses[what]

    return build


@pytest.fixture
def at_work(desk: Desk, built: Callable[[str], House]) -> Callable[[str], Desk]:
    """A desk where one types the hpclaunch of the copy with that addition."""

    def sit_down(what: str) -> Desk:
        desk.environment["PYTHONPATH"] = str(built(what).root)
        desk.environment.pop("HPCLAUNCH_SITE", None)
        for tool in ("setsid", "sort"):
            found = shutil.which(tool)
            assert found, tool
            (desk.root / "tools" / tool).symlink_to(found)
        return desk

    return sit_down


def run_tests(house: House, *words: str) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy, of its own hpclaunch."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(house.root), "HOME": str(house.root)}
    return subprocess.run(command, cwd=house.root, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("what", NAMES)
def test_the_table_names_every_file_that_is_touched_and_no_other(built: Callable[[str], House], what: str) -> None:
    house = built(what)
    assert house.changed() - house.to_write_also() == house.to_write()


def test_a_launcher_starts_ranks(at_work: Callable[[str], Desk]) -> None:
    desk = at_work("launcher")
    desk.write("site_configs/desk.yaml", DESK_SITE)
    desk.write("run.sh", 'echo "rank $PMI_RANK of $PMI_SIZE"\n')
    desk.program("mpiexec", (PROGRAMS / "mpiexec").read_text())
    typed = ("./run.sh", "--site", "desk", "--tasks-per-node", "2", "--launcher", "mpiexec")
    assert "\nlaunch mpiexec -n 2 -ppn 2\n" in desk.type("render", *typed).out
    done = desk.type("submit", *typed, "--wait", "--json")
    assert (done.code, done.json["state"]) == (0, "COMPLETED"), done.err
    logs = [Path(done.json["run_dir"], f"logs/rank-{rank}.out").read_text() for rank in (0, 1)]
    assert logs == ["rank 0 of 2\n", "rank 1 of 2\n"]


def test_a_site_is_shown_and_rendered(at_work: Callable[[str], Desk]) -> None:
    desk = at_work("site")
    assert "Isle, a cluster that a test adds" in desk.type("sites", "show", "isle").out
    done = desk.type("render", "cifar", "--site", "isle", "--nodes", "2")
    assert done.code == 0, done.err
    assert "\n#SBATCH --nodes=2\n" in done.out and "\nlaunch srun --nodes=2 --ntasks=8 " in done.out


def test_the_goldens_of_a_site_are_written_and_no_other_changes(built: Callable[[str], House]) -> None:
    house = built("site")
    missing = run_tests(house, "tests/golden", "-k", "isle")
    assert (missing.returncode, "isle/cifar-4.sh" in missing.stdout) == (1, True), missing.stdout
    written = run_tests(house, "tests/golden", "--rewrite-golden", "-k", "isle or golden_for_every_case")
    assert written.returncode == 0, written.stdout
    assert house.changed() == {"site_configs/isle.yaml", "tests/golden/isle/"}
    names = {path.name for path in (house.root / "tests/golden/isle").iterdir()}
    assert names == {"cifar-1.sh", "cifar-4.sh", "cifar-4-mpirun.diff", "script-4-torchrun.diff"}


def test_a_container_runtime_is_rendered(at_work: Callable[[str], Desk]) -> None:
    desk = at_work("container runtime")
    desk.write("site_configs/boxes.yaml", BOXES)
    done = desk.type(
        "render", "cifar", "--site", "boxes", "--nodes", "2", "--runs-dir", "/shared", "--accept-unverified"
    )
    assert done.code == 0, done.err
    assert "ch-run --bind /shared/" in done.out and " --write-fake /images/tf -- " in done.out
    wrong = desk.write("site_configs/wrong.yaml", BOXES.replace("runtime: charliecloud", "runtime: charlie"))
    refused = desk.type("render", "cifar", "--site", wrong.stem)
    assert (refused.code, "charliecloud, apptainer" in refused.err) == (1, True), refused.err


def test_an_optimizer_is_planned_with_its_memory_and_its_rules(at_work: Callable[[str], Desk]) -> None:
    desk = at_work("optimizer")
    plans = {}
    for name in ("lion", "lars", "adam"):
        plans[name] = desk.type(
            "plan", "cifar", "--site", "perlmutter", "--nodes", "4", "--set", f"optimizer={name}", "--json"
        )
        assert plans[name].code == 0, plans[name].err
    settings = dict(plans["lion"].json["settings"])
    assert settings.get("scale_learning_rate", "none") == "none", "its rate was tuned for adam, and stays as it is"
    of_one_replica = {name: plan.json["parallelism"]["reason"]["numbers"][0]["value"] for name, plan in plans.items()}
    assert of_one_replica["lion"] == of_one_replica["lars"] < of_one_replica["adam"]


def test_an_optimizer_takes_the_steps_of_its_formula(built: Callable[[str], House]) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)")
    house = built("optimizer")
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(house.root), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", STEPS, "--optimizer=lion", "--weight-decay=0.1"]
    done = subprocess.run(command, cwd=house.root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = []
    for start, gradients in ((1.0, (3.0, -0.1)), (-2.0, (0.0, -4.0))):
        weight, average = start, 0.0
        for gradient in gradients:
            direction = 0.9 * average + 0.1 * gradient
            weight -= 0.5 * ((direction > 0) - (direction < 0) + 0.1 * weight)
            average = 0.99 * average + 0.01 * gradient
        expected.append(weight)
    assert json.loads(done.stdout)[0] == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def queue(at_work: Callable[[str], Desk]) -> Desk:
    """A desk at a site of the new scheduler."""
    desk = at_work("scheduler")
    for name in ("qsub", "qstat", "qdel"):
        desk.program(name, (PROGRAMS / "pbs").read_text())
    desk.write("site_configs/pond.yaml", QUEUE_SITE)
    desk.environment["HPCLAUNCH_SITE"] = "pond"
    return desk


def state(desk: Desk, run: Path) -> tuple[str, str]:
    (record,) = desk.type("status", run.name, "--json").runs
    return record["job_id"], record["state"]


def test_a_scheduler_runs_a_script(queue: Desk) -> None:
    queue.write("run.sh", 'echo "got $1 from job $PBS_JOBID"\n')
    done = queue.type("submit", "./run.sh", "--wait", "--json", "--", "it's")
    assert (done.code, done.json["state"], done.json["job_id"]) == (0, "COMPLETED", "1"), done.err
    run = Path(done.json["run_dir"])
    assert "\n#PBS -l walltime=00:10:00\n" in (run / "job.sh").read_text()
    assert queue.type("logs", run.name).out == "got it's from job 1.server\n"
    again = subprocess.run(["bash", run / "job.sh"], env=queue.environment, capture_output=True, text=True)
    assert (again.returncode, "job 1 has completed this run" in again.stderr) == (78, True), again.stderr


@pytest.mark.parametrize(("waited", "told"), [("singleton", "jobs by their name"), ("4711", "others")])
def test_a_scheduler_without_dependencies_refuses_to_wait(queue: Desk, waited: str, told: str) -> None:
    queue.write("run.sh", "true\n")
    done = queue.type("submit", "./run.sh", "--after", waited)
    assert done.code == 1 and f"cannot let a job of PBS wait for {told}" in done.err, done.err


def test_a_scheduler_writes_what_is_asked_for(queue: Desk) -> None:
    """Account, memory, GPUs, the tasks of an array and the restart by a successor, each in the script."""
    queue.write("run.sh", "true\n")
    typed = ("render", "./run.sh")
    plain = queue.type(*typed)
    assert "\n#PBS -l select=1:ncpus=2\n" in plain.out, plain.err
    assert not re.search("^#PBS -[AJ]|:mem=|:ngpus=|restart", plain.out, re.MULTILINE)
    size = ("--node-type", "gpu", "--gpus-per-node", "3", "--tasks-per-node", "1", "--memory", "6G")
    full = queue.type(*typed, *size, "--account", "m1234", "--sweep", "seed=1..5")
    lines = full.out.splitlines()
    assert "#PBS -A m1234" in lines and "#PBS -J 0-4" in lines, full.err
    assert [line for line in lines if ":mem=6144mb:ngpus=3" in line and line.startswith("#PBS -l select=1:ncpus=")]
    assert "array_task 4 PBS_ARRAY_INDEX" in lines
    again = queue.type(*typed, "--restarts", "3")
    assert "\nbegin pbs restarts=3 restart_by=resubmit restart_lead=0" in again.out, again.err
    assert "PBS sends no signal before the end of the walltime" in again.err


@pytest.mark.parametrize(
    ("typed", "refusal"),
    [
        (("--qos", "high"), "hpclaunch cannot ask PBS for a QOS"),
        (("--node-type", "a100"), "hpclaunch cannot ask PBS for GPUs of a type"),
        (("--sweep", "seed=1..5", "--at-once", "2"), "hpclaunch cannot ask PBS for a limit of the tasks"),
        (("--sbatch=--mail-type=END",), "'--mail-type=END' is an option of sbatch, and pond has PBS"),
        (("--restarts", "3", "--signal", "USR2@60"), "PBS sends no signal before the end"),
    ],
)
def test_a_scheduler_refuses_what_it_does_not_write(queue: Desk, typed: tuple[str, ...], refusal: str) -> None:
    queue.write("run.sh", "true\n")
    done = queue.type("render", "./run.sh", *typed)
    assert done.code == 1 and refusal in done.err, done.err


def test_a_scheduler_tells_of_a_job_and_cancels_it(queue: Desk) -> None:
    queue.write("run.sh", ': > "$HPCLAUNCH_RUN_DIR/begun"\nexec sleep 3600\n')
    run = Path(queue.type("submit", "./run.sh").out.strip())
    wait_for((run / "begun").exists, "the program runs")
    assert state(queue, run) == ("1", "RUNNING")
    again = subprocess.run(["bash", run / "job.sh"], env=queue.environment, capture_output=True, text=True)
    assert (again.returncode, "job 1 has this run directory and is RUNNING" in again.stderr) == (78, True)
    assert queue.type("cancel", run.name).code == 0
    wait_for((queue.spool / "1/code").exists, "the job has ended")
    assert state(queue, run) == ("1", "CANCELLED")


def test_a_scheduler_continues_a_run_that_has_saved(queue: Desk) -> None:
    queue.write("run.sh", 'echo "start $HPCLAUNCH_RESTART_COUNT"\n[ "$HPCLAUNCH_RESTART_COUNT" -eq 1 ] || exit 75\n')
    done = queue.type("submit", "./run.sh", "--restarts", "3", "--wait", "--json")
    assert (done.json["job_id"], done.json["state"]) == ("2", "COMPLETED"), done.err
    said = (Path(done.json["run_dir"]) / "logs/pbs.out").read_text()
    assert said == "start 0\nhpclaunch: saved; submitting a successor\nstart 1\n"


@pytest.mark.parametrize("what", ["launcher", "scheduler"])
def test_what_is_added_keeps_the_contract_of_rows(built: Callable[[str], House], what: str) -> None:
    done = run_tests(built(what), "tests/architecture/test_rows.py", "-k", NAMES[what])
    assert (done.returncode, " passed" in done.stdout) == (0, True), done.stdout
