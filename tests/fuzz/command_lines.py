"""Hostile command lines: every option of the verbs that start nothing, with values of its own and with any text."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import typer.main
import yaml
from hypothesis import strategies as st

from hpclaunch import cli
from hpclaunch.config.catalog import bundled
from tests.fuzz.scene import COMPILED, KEPT, Scene, Way
from tests.fuzz.text_ways import screen, shown, words

VERBS = [
    ["submit", "train", "--dry-run"],
    ["submit", "train", "--dry-run", "--site", "mine"],
    ["submit", "./script.py", "--dry-run", "--site", "mine"],
    ["submit", "tuned", "--dry-run", "--site", "mine"],
    ["submit", "--dry-run"],
    ["render", "train"],
    ["render", "./script.py", "--site", "perlmutter"],
    ["render"],
    ["shell", "--dry-run", "--site", "mine"],
    ["profile", "train", "--dry-run"],
    ["plan", "train"],
    ["plan", "tuned"],
    *(["status"], ["watch"], ["logs"], ["wait"], ["cancel"], ["retry"], ["resume"], ["rerun"]),
    *(["results"], ["runs", "export"]),
    *(["runs", "show"], ["runs", "compare"], ["runs", "list"], ["jobs", "list"], ["jobs", "show"], ["sites", "show"]),
    [],
]
"""What is typed first. Without a run in the project, none of them starts a program."""
ELSEWHERE = {
    "--output": "writes the file that one names, and a run directory",
    "-o": "the same",
    "--plot": "writes the file that one names",
    "--test-only": "asks Slurm, with --dry-run too",
    "--install-completion": "writes into the files of one's shell",
}
"""Options that are left out, and why: the guard forbids what they do."""
UNKNOWN = ("--zzz", "-x")


def options_of(verb: list[str]) -> dict[str, bool]:
    """The options of a verb's command, as Typer builds it, and whether each takes a value."""
    command: Any = typer.main.get_command(cli.app)
    for word in verb:
        command = getattr(command, "commands", {}).get(word, command)
    return {
        option: not getattr(parameter, "is_flag", False)
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-") and option not in ELSEWHERE
    }


FLAGS = tuple(sorted({option for verb in VERBS if verb for option in options_of(verb)})) + UNKNOWN
"""Every option of these commands, so that a new one is tried from its first day."""
VALUES = {
    "--site": ["local", "mine", "testcluster", "perlmutter", "local/../local"],
    "--node-type": ["A", "A:1,B:4", "B:2,A:1", "A:1,A:2", "A:0", "A:2,B", "A:1,", ":1", "A:99999999", "C:1,A:1"],
    "--launcher": ["srun", "mpirun", "torchrun", "horovodrun", "none"],
    "--framework": ["tensorflow", "pytorch", "jax", "mpi", "none"],
    "--strategy": ["horovod", "mirrored", "multiworker", "one-device", "central-storage", "TPUStrategy", "ps", "."],
    "--name": ["a", "@2", "-a", "a" * 65],
    "--partition": ["batch", "debug", "batch,debug"],
    "--memory": ["1G", "1GB", "0.5T", "1e3G", "-1G"],
    "--walltime": ["1:00:00", "1-0", "90m", "0", "99999999:00:00"],
    "--signal": ["USR2", "USR2@60", "B:USR1@99999", "KILL"],
    "--sbatch": ["--mem=1", "--job-name=a", "--array=0-3", "--exclusive", "--wrap=id", "mem=1", "--signal=TERM@9"],
    "--set": ["epochs=3", "rate=0.1", "rate=", "=1", "learning_rate=1"],
    "--sweep": ["lr=0.1,0.01", "lr=1:2:0", "seed=1..10", "seed=1..", "seed=9..1", "seed=0..999999999999999999"]
    + ["epochs=1,2,2", 'optimizer="a,b",c', 'optimizer="', "rate=1e999,nan", "a,b=1", "lr=" + "1," * 3000],
    "--recipe": ["plan", "job", "own", "recommended"],
    "--env": ["A=b", "A=", "=b", "HPCLAUNCH_X=1", "PATH=/x", "1A=b", "A=\n"],
    "--module": ["python/3.11", "a b", "-a", "$(id)"],
    "--python": ["python3", "current", "./script.py", "/bin/sh", "~/x"],
    "--venv": [".", "~/venv", "$HOME/venv", "venv\n"],
    "--conda": ["base", "./conda", "$(id)"],
    "--hosts": ["hosts", "./hosts", "hosts/x", ".", ".hpclaunchignore", "/dev/zero"],
    "--include": ["*.csv", "table.csv", "[", "**", "../*", ".hpclaunchignore", "["],
    "--after": ["@latest", "@2", "@-1", "@0", "@", "@99999999999999999999", "1", "1_2", "train-1", "/etc"],
    "--runs-dir": ["runs", "/nonexistent/x", "$SCRATCH/x", "~", "table.csv"],
    "--data-dir": ["data", "/", "$HOME/data"],
    "--calibration": ["hosts", "table.csv", ".", "/dev/zero", "calibration.yaml"],
    "--deadline": ["1h", "0", "-1"],
    "--budget": ["1", "nan", "inf", "0", "1e999"],
    "--weight": ["0.5", "nan", "1"],
    "--prefer": ["time", "cost"],
    "--from": ["@latest", "@2", "1", "/etc"],
    "--timeout": ["1s", "0", "1:00:00"],
}
"""What gets further than any text."""
VALUES["--after-any"] = VALUES["--after"]
typed = st.one_of(
    words,
    st.sampled_from(["local", "testcluster", "train", "tuned", "1", "2", "1:00:00", "a=b", "--mem=1", "3G", "1G"]),
    st.sampled_from(["./script.py", "hosts", "@latest", "@2", "@-1", "@", "{lr}", "{code}", "bash"]),
)
flags = st.sampled_from(FLAGS)


def option_of(verb: list[str]) -> st.SearchStrategy[Any]:
    """One option that the verb has, with a value if it takes one."""
    known = options_of(verb)

    def with_value(option: str) -> st.SearchStrategy[Any]:
        if not known[option]:
            return st.just(option)
        own = st.sampled_from(VALUES.get(option, ["1", "2", "0", "-1", "9" * 30]))
        return st.tuples(st.just(option), st.one_of(own, own, typed))

    return st.sampled_from(sorted(known)).flatmap(with_value)


def line_of(verb: list[str]) -> st.SearchStrategy[Any]:
    """A verb, its options and others, and what is typed after ``--``."""
    fitting = option_of(verb)
    options = st.lists(st.one_of(fitting, fitting, fitting, flags, st.tuples(flags, typed), typed), max_size=5)
    takes_a_program = verb[:1] in (["submit"], ["render"])
    after = st.lists(typed, max_size=3) if takes_a_program else st.sampled_from([*[[]] * 9, ["x"]])
    return st.tuples(st.just(verb), st.one_of(st.lists(fitting, max_size=3), options), after)


PROJECT = {
    "hosts": "n1 slots=2\nn1\nn2:4\n",
    ".hpclaunchignore": "*.log\n",
    "script.py": "import torch\n",
    "table.csv": "1,2\n",
    "calibration.yaml": "points: [{nodes: 1, ranks_per_node: 4, per_rank: 32, samples_per_s: 100}]\n",
    "jobs/tuned/train.py": "print()\n",
    "jobs/tuned/job.yaml": "{summary: trains, script: train.py, parameters: {epochs: 3, seed: 1, rate: "
    "{default: 0.1, choices: [0.1, 1]}, optimizer: adam}, recipes: {own: {summary: tried, settings: {epochs: 1}}}}\n",
}


def prepare_project(scene: Scene) -> None:
    """The files that command lines name, and a site with two node types where any folder may hold runs."""
    site = yaml.safe_load((bundled("site_configs") / "testcluster.yaml").read_text())
    nodes = site["node_types"].pop("gpu")
    site["node_types"] = {"A": nodes, "B": {**nodes, "gpus_per_node": 0}}
    site["defaults"]["node_type"] = "A"
    for key in ("detect", "folders", "sources", "origins"):
        del site[key]
    for name, text in {**PROJECT, "site_configs/mine.yaml": json.dumps(site)}.items():
        file = scene.place / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def feed_command_line(scene: Scene, verb: list[str], some: list[Any], after: list[str]) -> None:
    place = scene.place
    line = [*verb, *(word for one in some for word in ([one] if isinstance(one, str) else one))]
    line += ["--", *after] if after else []
    line = [word.replace("\0", "").encode("utf-8", "replace").decode() for word in line]  # exec passes no others
    out, err = screen(), screen()
    with (
        scene.met(place / COMPILED, place / KEPT),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main(line)
        except SystemExit as ended:
            assert ended.code in (None, 0, 1, 2, 124, 130), (line, ended.code)
            if ended.code in (1, 2):
                scene.outcome = "refused"
                assert shown(err) + shown(out), line
    assert b"Traceback" not in shown(err)


DEEP = [verb for verb in VERBS if len(verb) > 1 and verb[0] in ("submit", "render", "shell", "plan")]
LINES = st.one_of(*map(line_of, [*DEEP, *VERBS]))
COMMAND_LINES = {"command lines": Way(LINES, feed_command_line, prepare_project)}
