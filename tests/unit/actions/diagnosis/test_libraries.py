"""The TensorFlow and the Horovod of the ranks."""

from __future__ import annotations

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from tests.unit.actions.diagnosis.probes import a_spec, evidence, failed, with_ranks


@pytest.mark.parametrize(
    ("version", "verdict"), [("2.8.4", "WARN"), ("2.9.0", "PASS"), ("2.20.0", "PASS"), ("2.21.0", "WARN")]
)
def test_versions_of_tensorflow(version: str, verdict: str) -> None:
    build = {"version": version, "cuda": True, "rocm": False, "gpus": 2}
    checks = diagnose(evidence(ranks=with_ranks(tensorflow=build)))
    assert next(check.verdict for check in checks if check.name == "TensorFlow") == verdict


def test_a_horovod_that_cannot_talk_with_the_launcher_is_named() -> None:
    build = {"version": "0.28.1", "mpi": False, "gloo": True, "nccl": False}
    assert "Horovod" in [check.name for check in failed(evidence(ranks=with_ranks(horovod=build)))]


def test_no_nccl_is_a_warning_where_gpus_compute() -> None:
    build = {"version": "0.28.1", "mpi": True, "gloo": True, "nccl": False}
    for stand_in, verdict in ((False, "WARN"), (True, "PASS")):
        found = evidence(spec=a_spec(stand_in_gpus=stand_in), ranks=with_ranks(horovod=build))
        assert next(check.verdict for check in diagnose(found) if check.name == "Horovod") == verdict


@pytest.mark.parametrize(("framework", "title", "package"), [("pytorch", "PyTorch", "torch"), ("jax", "JAX", "jax")])
def test_a_probe_for_one_library_checks_it_alone(framework: str, title: str, package: str) -> None:
    spec = a_spec(stand_in_gpus=False) | {"choices": [{"key": "framework", "value": framework, "origin": "x"}]}
    for cuda, verdict in ((True, "PASS"), (False, "FAIL")):
        build = {"version": "1.2", "cuda": cuda, "rocm": False}
        checks = {check.name: check for check in diagnose(evidence(spec=spec, ranks=with_ranks(**{framework: build})))}
        assert checks[title].verdict == verdict
        assert not {"TensorFlow", "Horovod"} & {*checks}
    problem = {"step": framework, "problem": f"ModuleNotFoundError: No module named '{package}'"}
    lacking = evidence(spec=spec, ranks=with_ranks(**problem))
    (found,) = [check for check in diagnose(lacking) if check.name == title]
    assert (found.verdict, f"has no {package}" in found.what) == ("FAIL", True)
