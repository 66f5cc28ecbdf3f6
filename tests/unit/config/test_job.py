from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.config.catalog import JOB, Catalog
from hpclaunch.config.job import load_job, looks_like_path, script_job
from hpclaunch.core.errors import InvalidFile, NotFound
from tests.builders import BUNDLED, bundled_job

JOBS = [found.name for found in BUNDLED.names(JOB)]


def load(tmp_path: Path, text: str) -> str:
    """Load it as a project's own job; return what is wrong with it."""
    folder = tmp_path / "jobs" / "mine"
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(text)
    try:
        load_job(Catalog(project=tmp_path, user=tmp_path / "user"), "mine", tmp_path)
    except InvalidFile as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", JOBS)
def test_every_bundled_job_loads_and_has_its_script(name: str) -> None:
    job = bundled_job(name)
    assert job.name == name
    assert job.script and (Path(job.folder) / job.script).is_file()
    assert all(parameter.help for parameter in job.parameters.values())
    assert job.data is None or job.data.fetch is None or job.data.fetch.url.startswith("https://")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("summary: x\n", "give either 'script' (a Python file) or 'command'"),
        ("summary: x\nscript: a.py\ncommand: [b]\n", "give either 'script'"),
        ("summary: x\nscript: ../a.py\n", "'script' must be a path inside the job's folder"),
        (
            "summary: x\nscript: a.py\nstrategies: [mirrored]\nparameters: {strategy: a}\n",
            "gives the program the option --strategy, so no param",
        ),
        ("summary: x\nscript: a.py\nstrategies: [mirored]\n", "strategies"),
        ("summary: x\nscript: /a.py\n", "'script' must be a path inside the job's folder"),
        ("script: a.py\n", "summary: this key is required"),
        ("summary: x\nscript: a.py\nresources: {nodes: 0}\n", "resources.nodes: 0 is too small"),
        ("summary: x\nscript: a.py\nresources: {nodes: many}\n", "resources.nodes: "),
        ("summary: x\nscript: a.py\nparameters: {Epochs: 1}\n", "parameters.Epochs: 'Epochs' is not allowed here"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: 1, hlp: x}}\n", "hlp: unknown key; did you mean 'help'?"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: []}}\n", "parameters.a.default: "),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: 0, at_least: 1}}\n",
            "0, the default or one of the choices, is not at least 1",
        ),
        ("summary: x\nscript: a.py\nparameters: {a: {default: 2, choices: [0, 2], above: 1}}\n", "0, the default or"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: 2, below: 1e999}}\n", "a bound must be a finite number"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: x, above: 1}}\n", "only a number can have bounds"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: x, required: true}}\n", "only a text whose default is"),
        ("summary: x\ncommand: [a]\npackages: [camb]\n", "'packages' are those of the Python that runs 'script'"),
        ("summary: x\nscript: a.py\npackages: ['../x']\n", "the name that Python imports"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: true, below: 2}}\n", "only a number can have bounds"),
        ("summary: x\nscript: a.py\nparameters: {a: {default: 1, at_least: x}}\n", "parameters.a.at_least: "),
        ("summary: x\nscript: a.py\ndata: {name: ../x, layouts: [a]}\n", "data.name: '../x' is not allowed here"),
        ("summary: x\nscript: a.py\ndata: {name: .., layouts: [a]}\n", "data.name: '..' is not allowed here"),
        ("summary: x\nscript: a.py\ndata: {name: x, layouts: []}\n", "data.layouts: has too few members"),
        (
            "summary: x\nscript: a.py\ndata: {name: x, layouts: [a], fetch: {url: https://a}}\n",
            "data.fetch: give either 'sha256' (of the file at 'url') or 'files'",
        ),
        (
            "summary: x\nscript: a.py\ndata: {name: x, layouts: [a], fetch: {url: https://a, files: {../b: x}}}\n",
            "data.fetch.files.../b: '../b' is not allowed here",
        ),
        ("summary: x\nscript: a.py\nother_data: [{name: y, layouts: [a]}]\n", "other_data: it needs 'data'"),
        (
            "summary: x\nscript: a.py\ndata: {name: x, layouts: [a]}\nother_data: [{name: y, layouts: [a]}]\n",
            "other_data: the job needs a parameter 'dataset' with the choices x, y",
        ),
        (
            (
                "summary: x\nscript: a.py\nparameters: {dataset: {default: x, choices: [x, z]}}\n"
                "data: {name: x, layouts: [a]}\nother_data: [{name: y, layouts: [a]}]\n"
            ),
            "other_data: the job needs a parameter 'dataset' with the choices x, y",
        ),
        ("summary: x\nscript: a.py\ntraining: {}\n", "training.samples: this key is required"),
        ("summary: x\nscript: a.py\ntraining: {samples: 0}\n", "training.samples: 0 is too small"),
        ("summary: x\nscript: a.py\ntraining: {samples: 9, task: mnits}\n", "did you mean 'mnist'?"),
        ("summary: x\nscript: a.py\ntraining: {samples: 9, model: model}\n", "allowed: module:function"),
        (
            "summary: x\nscript: a.py\ntraining: {samples: 9, figures: {parameters: 1}}\n",
            "training: 'figures' needs flops_per_sample, saved_bytes_per_sample above zero",
        ),
        ("summary: x\nscript: a.py\ntraining: {samples: 9, figures: {params: 1}}\n", "training.figures.params: "),
        (
            "summary: x\nscript: a.py\ntraining: {samples: 9, names: {epochs: rounds}}\n",
            "training.names contains rounds, but the job has no such parameter",
        ),
        (
            "summary: x\nscript: a.py\ndata: {name: x, layouts: [a], make: {program: ../a.py}}\n",
            "data.make: 'program' must be the path of a Python file inside the job's folder",
        ),
        (
            "summary: x\nscript: a.py\ndata: {name: x, layouts: [a], make: {program: a.py, parameters: [size]}}\n",
            "data.make.parameters.size: the job has no such parameter",
        ),
        (
            "summary: x\nscript: a.py\ntraining: {samples: 9, formulas: {samples: tokens / 2}}\n",
            "training.formulas.samples: no parameter 'tokens' of the job is a number",
        ),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: 3, divides: b}, b: 4}\n",
            "parameters.a: 3 does not divide b=4",
        ),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: 3, divides: c}}\n",
            "parameters.a: it must divide 'c', but the job has no such parameter",
        ),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: 1.5, less_than: b}, b: 1}\n",
            "parameters.a: 1.5 is not less than b=1",
        ),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: 3, less_than: c}}\n",
            "parameters.a: it must be less than 'c', but the job has no such parameter",
        ),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: 3, less_than: b}, b: none}\n",
            "parameters.a: it must be less than 'b', which is not a number",
        ),
        (
            "summary: x\nscript: a.py\nparameters: {a: {default: none, less_than: b}, b: 3}\n",
            "only a number can have bounds",
        ),
        ("summary: x\nscript: a.py\nlauncher: mpi\n", "launcher: 'mpi' is not allowed"),
    ],
)
def test_a_fault_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    assert message in load(tmp_path, text)


def test_a_setting_chooses_among_the_data_sets_of_a_job() -> None:
    job = bundled_job("mnist")
    names = [job.data_for(typed) for typed in ((), (("dataset", "fashion_mnist"),), (("dataset", "none"),))]
    assert [one and one.name for one in names] == ["mnist", "fashion_mnist", "mnist"]
    recipe = job.with_defaults([("dataset", "fashion_mnist")]).data_for(())
    assert recipe and recipe.name == "fashion_mnist" and recipe.fetch and len(recipe.fetch.files) == 4
    assert bundled_job("cifar").data_for((("dataset", "x"),)) == bundled_job("cifar").data


def test_a_parameter_may_be_just_its_default(tmp_path: Path) -> None:
    assert load(tmp_path, "summary: x\nscript: a.py\nparameters: {a: 1, b: {default: 2}}\n") == ""


@pytest.mark.parametrize(
    ("target", "answer"),
    [("cifar", False), ("train.py", True), ("run.sh", True), ("./run", True), ("a/b", True), ("run", False)],
)
def test_a_path_is_told_from_a_name(target: str, answer: bool) -> None:
    assert looks_like_path(target) is answer


@pytest.mark.parametrize(
    ("path", "name", "script", "command"),
    [
        ("/p/my_train.py", "my_train", "my_train.py", ()),
        ("/p/run.sh", "run", None, ("bash", "{code}/run.sh")),
        ("/p/program", "program", None, ("{code}/program",)),
        ("/p/my train $(x).py", "my-train-x", "my train $(x).py", ()),
        ("/p/-.py", "script", "-.py", ()),
        ("/p/ü.py", "script", "ü.py", ()),
        (f"/p/{'x' * 80}.py", "x" * 64, f"{'x' * 80}.py", ()),
    ],
)
def test_a_script_becomes_a_job(path: str, name: str, script: str | None, command: tuple[str, ...]) -> None:
    job = script_job(Path(path))
    assert (job.name, job.script, job.command, job.folder, job.source_only) == (name, script, command, "/p", True)


def test_an_unknown_job_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no job is called 'cifr'; did you mean 'cifar'"):
        load_job(BUNDLED, "cifr", tmp_path)
