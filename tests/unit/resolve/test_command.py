from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.data_sets import DataSet
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.parameters import Parameter
from hpclaunch.config.site import Folders
from hpclaunch.core.errors import Refused
from tests.builders import CONTEXT, a_context, a_job, a_site, bundled_job, planned

CODE = f"{CONTEXT.run_dir}/code"
DATA = DataSet(name="cifar10", layouts=("train",))


def test_parameters_come_first_and_typed_arguments_last_and_unchanged() -> None:
    job = a_job(parameters={"batch_size_per_rank": Parameter(default=32), "augment": Parameter(default=True)})
    spec = planned(job=job, arguments=("--augment=x", "$HOME", ""))
    assert spec.command == (
        "python3",
        f"{CODE}/train.py",
        "--batch-size-per-rank=32",
        "--augment=true",
        "--augment=x",
        "$HOME",
        "",
    )


def test_a_parameter_is_set_by_its_name() -> None:
    job = a_job(parameters={"learning_rate": Parameter(default=0.1)})
    assert planned(job=job, settings=(("learning_rate", "1e-4"),)).command[-1] == "--learning-rate=0.0001"


def test_the_script_names_what_was_typed_and_what_the_program_does_not_take_by_itself() -> None:
    parameters = {
        "crop": Parameter(default=0, builtin=0),
        "seed": Parameter(default=7, builtin=7),
        "epochs": Parameter(default=12, builtin=10),
        "decay_epochs": Parameter(default="30,60", type="epochs", builtin=""),
        "own": Parameter(default=True),
        "rate": Parameter(default=0.1, builtin=0.1),
    }
    job = a_job(parameters=parameters)
    assert planned(job=job).command[2:] == ("--default=epochs=12", "--default=decay-epochs=30,60", "--own=true")
    spec = planned(job=job, settings=(("seed", "7"), ("epochs", "10"), ("rate", "1e-1")))
    # Typed values are told as such, also where they are the program's default, or the job file's.
    assert spec.command[2:] == ("--seed=7", "--epochs=10", "--default=decay-epochs=30,60", "--own=true", "--rate=0.1")
    assert spec.parameters == (
        ("crop", "0"),
        ("seed", "7"),
        ("epochs", "10"),
        ("decay_epochs", "30,60"),
        ("own", "true"),
        ("rate", "0.1"),
    )
    chosen = [(one.key, one.value, one.origin) for one in spec.choices if one.key.startswith("parameters.")]
    assert chosen == [
        ("parameters.seed", "7", "--set"),
        ("parameters.epochs", "10", "--set"),
        ("parameters.rate", "0.1", "--set"),
    ]


def test_a_swept_parameter_is_told_by_its_run_alone() -> None:
    job = a_job(parameters={"seed": Parameter(default=7, builtin=7), "epochs": Parameter(default=3, builtin=1)})
    spec = planned(job=job, sweep=(("epochs", "1,2"),))
    assert spec.command[2:] == ()
    assert spec.parameters == (("seed", "7"),)


@pytest.mark.parametrize(("typed", "origin"), [({"synthetic": True}, "--synthetic"), ({}, "")])
def test_synthetic_is_recorded_as_chosen(typed: dict[str, bool], origin: str) -> None:
    spec = planned(job=a_job(parameters={"synthetic": Parameter(default=False, builtin=False)}, data=DATA), **typed)
    assert spec.command[2:] == (("--synthetic=true",) if origin else ())
    assert [one.origin for one in spec.choices if one.key == "parameters.synthetic"] == ([origin] if origin else [])


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer"])
def test_a_bundled_jobs_script_names_nothing_that_was_not_typed(name: str) -> None:
    job = bundled_job(name)
    spec = planned(job=job, settings=(("epochs", str(job.parameters["epochs"].default)),))
    assert spec.command[2:] == (f"--epochs={job.parameters['epochs'].default}",)
    assert dict(spec.parameters).keys() == job.parameters.keys()


@pytest.mark.parametrize(("heads", "hidden"), [("3", None), (None, "130"), ("5", "128")])
def test_a_parameter_that_does_not_divide_another_is_refused(heads: str | None, hidden: str | None) -> None:
    settings = tuple((name, text) for name, text in (("heads", heads), ("hidden", hidden)) if text)
    with pytest.raises(Refused, match=f"--set heads: {heads or 4} does not divide hidden={hidden or 128}"):
        planned(job=bundled_job("transformer"), settings=settings)
    planned(job=bundled_job("transformer"), settings=(("heads", "5"), ("hidden", "130")))


def test_every_pair_that_does_not_fit_is_named_also_beside_a_value_that_cannot_be_read() -> None:
    with pytest.raises(Refused) as refused:
        planned(job=bundled_job("transformer"), settings=(("tensor_parallel", "3"), ("vocabulary", "many")))
    told = str(refused.value)
    assert "3 does not divide heads=4" in told and "'many' is not a whole number" in told
    with pytest.raises(Refused) as refused:
        planned(job=bundled_job("transformer"), settings=(("tensor_parallel", "3"),))
    assert "3 does not divide heads=4" in str(refused.value) and "3 does not divide vocabulary=" in str(refused.value)
    with pytest.raises(Refused, match="--sweep heads: 3 does not divide hidden=128"):
        planned(job=bundled_job("transformer"), sweep=(("heads", "2,3,5"),))


def test_a_parameter_that_is_not_less_than_another_is_refused() -> None:
    universes, folder = bundled_job("universes"), ("folder", "/data")
    with pytest.raises(Refused, match="--set part: 12 is not less than parts=12"):
        planned(job=universes, settings=(folder, ("parts", "12"), ("part", "12")))
    planned(job=universes, settings=(folder, ("parts", "12"), ("part", "11")))
    with pytest.raises(Refused, match="--sweep part: 12 is not less than parts=12") as refused:
        planned(job=universes, settings=(folder, ("parts", "12")), sweep=(("part", "0..14"),))
    assert str(refused.value).count("is not less than") == 1
    with pytest.raises(Refused, match="--sweep parts: 1 is not less than parts=1"):
        planned(job=universes, settings=(folder, ("part", "1")), sweep=(("parts", "2,1"),))
    planned(job=universes, settings=(folder, ("parts", "12")), sweep=(("part", "0..11"),))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({}, r"universes needs a value of 'folder': the data folder .*--set folder=VALUE"),
        ({"settings": (("folder", ""),)}, "--set folder: a value is required, not an empty text"),
        ({"sweep": (("folder", '"",/data'),)}, "a value is required, not an empty text"),
    ],
)
def test_a_required_parameter_must_have_a_value(typed: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=f"(?s){message}"):
        planned(job=bundled_job("universes"), **typed)
    planned(job=bundled_job("universes"), settings=(("folder", "/data"),))


def test_a_command_may_name_its_code_and_its_run_directory() -> None:
    job = a_job(command=("julia", "--project={code}", "{code}/a.jl", "--out={run_dir}/out"))
    spec = planned(job=job)
    assert spec.command == ("julia", f"--project={CODE}", f"{CODE}/a.jl", f"--out={CONTEXT.run_dir}/out")
    assert spec.interpreter == "julia"
    assert spec.code.entry == "a.jl"


def test_synthetic_is_a_parameter_like_another_and_needs_no_data() -> None:
    job = a_job(parameters={"synthetic": Parameter(default=False)}, data=DATA)
    spec = planned(job=job, synthetic=True)
    assert spec.command[-1] == "--synthetic=true"
    assert spec.data is None
    assert "HPCLAUNCH_DATA_DIR" not in dict(spec.environment)


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        ("/data", "/data"),
        ("$SCRATCH/data", "/scratch/ada/data"),
        ("${SCRATCH}/data", "/scratch/ada/data"),
        ("~/data", "/home/ada/data"),
        ("~", "/home/ada"),
        ("data", "/home/ada/project/data"),
        ("/a/../b//c/", "/b/c"),
        ("$NOBODY/data", ""),
        ("~other/data", "/home/ada/project/~other/data"),
    ],
)
def test_a_folder_in_a_file_is_expanded_by_the_environment(written: str, folder: str) -> None:
    spec = planned(
        a_site(folders=Folders(data=written)),
        a_job(data=DATA),
        context=a_context(environment={"SCRATCH": "/scratch/ada"}),
    )
    assert spec.data is not None
    assert spec.data.folder == folder


def test_a_typed_folder_is_taken_as_it_is() -> None:
    spec = planned(job=a_job(data=DATA), data_dir="$HOME/~")
    assert spec.data is not None
    assert spec.data.folder == "/home/ada/project/$HOME/~"
    assert dict(spec.environment)["HPCLAUNCH_DATA_DIR"] == spec.data.folder


def test_a_program_of_ones_own_gets_the_typed_folder_or_file_and_no_other() -> None:
    own = a_job(source_only=True, data=None)
    spec = planned(job=own, data_dir="houses.npz")
    assert spec.data is not None
    assert (spec.data.layouts, dict(spec.environment)["HPCLAUNCH_DATA_DIR"]) == ((), "/home/ada/project/houses.npz")
    assert "HPCLAUNCH_DATA_DIR" not in dict(planned(a_site(folders=Folders(data="/data")), own).environment)


def test_row_20_a_login_shell_where_the_site_says_so() -> None:
    assert planned(a_site(login_shell=True)).shell == "/bin/bash -l"
    assert planned().shell == "/bin/bash"


def test_mpirun_carries_every_variable_that_is_set() -> None:
    spec = planned(job=a_job(environment=Environment(variables={"MINE": "1"})), launcher="mpirun")
    exported = [spec.launch[index + 1] for index, word in enumerate(spec.launch) if word == "-x"]
    assert {"MINE", "PATH", "HPCLAUNCH_RUN_DIR", "HPCLAUNCH_WORLD_SIZE", "OMP_NUM_THREADS"} <= set(exported)


def test_a_job_runs_in_its_run_directory_and_a_script_where_it_was_submitted() -> None:
    assert planned().chdir == CONTEXT.run_dir
    assert planned(job=a_job(source_only=True)).chdir == CONTEXT.cwd
