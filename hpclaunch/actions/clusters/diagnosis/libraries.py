"""The TensorFlow and the Horovod, the PyTorch or the JAX that a probe job's ranks loaded. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from hpclaunch.actions.clusters.diagnosis.evidence import Check, Facts, ProbeEvidence, Verdict
from hpclaunch.actions.environments.python_packages import NEXT
from hpclaunch.core.spec import TENSORFLOW
from hpclaunch.resolve.environment.framework import PACKAGES

_OLDEST_TENSORFLOW, _NEWEST_TENSORFLOW = (2, 9), (2, 20)
"""TensorFlow versions that Horovod 0.28.1 was tried with (see training/rank/keras_version.py)."""


_OF_PYTORCH = "hpclaunch doctor --framework pytorch checks PyTorch instead"


def library_checks(evidence: ProbeEvidence) -> list[Check]:
    """Return the checks of the libraries that the probe was made for."""
    if evidence.framework != TENSORFLOW:
        return [single_library_check(evidence)]
    return [tensorflow_check(evidence), horovod_check(evidence)]


def single_library_check(evidence: ProbeEvidence) -> Check:
    """Return the check of PyTorch or JAX: all ranks load the same version, one for the GPUs that compute."""
    framework, name, layout = evidence.framework, evidence.framework_title, evidence.spec["layout"]
    builds = evidence.values_of(framework)
    hint = f"name one under 'environment:' in the settings or the job, or under frameworks.{framework} in the site file"
    versions = sorted({build["version"] for build in builds})
    if not builds:
        lacking = lacking_check(evidence, name, framework, PACKAGES[framework][0])
        if lacking:
            return lacking
        problem = evidence.problem_in(framework) or "no rank has loaded it"
        return Check(name=name, verdict="FAIL", what=f"{evidence.ranks[0]['python']}: {problem}", next=hint)
    if len(versions) > 1:
        return Check(name=name, verdict="FAIL", what=f"ranks have different versions: {', '.join(versions)}", next=hint)
    target = _build_target(builds[0])
    has_real_gpus = layout["gpus_per_node"] and not layout["stand_in_gpus"]
    verdict: Verdict = "FAIL" if has_real_gpus and target == "for CPUs" else "PASS"
    return Check(name=name, verdict=verdict, what=f"{versions[0]}, built {target}", next=hint)


def lacking_check(evidence: ProbeEvidence, name: str, step: str, package: str) -> Check | None:
    """Return the failed check of a Python that has no such package, in the words of the script; None if it has one."""
    problem = evidence.problem_in(step)
    if f"No module named {package!r}" not in problem:
        return None
    rank = evidence.ranks[0]
    what = f"{rank['python']} on {rank['host']} has no {package}"
    return Check(name=name, verdict="FAIL", what=what, next=NEXT)


def _build_target(build: Facts) -> str:
    if build["cuda"]:
        return "for CUDA"
    if build["rocm"]:
        return "for ROCm"
    return "for CPUs"


def tensorflow_check(evidence: ProbeEvidence) -> Check:
    """Return the check of TensorFlow: all ranks load the same version, one that Horovod works with."""
    name, builds = "TensorFlow", evidence.values_of("tensorflow")
    versions = sorted({build["version"] for build in builds})
    hint = "name one with TensorFlow 2.9 to 2.20 under 'environment:' in the settings, the job or the site file"
    if not builds:
        lacking = lacking_check(evidence, name, "tensorflow", "tensorflow")
        if lacking:
            return replace(lacking, next=f"{lacking.next}; {_OF_PYTORCH}")
        problem = evidence.problem_in("tensorflow") or "no rank has loaded it"
        what = f"{evidence.ranks[0]['python']}: {problem}"
        return Check(name=name, verdict="FAIL", what=what, next=f"{hint}; {_OF_PYTORCH}")
    if len(versions) > 1:
        return Check(name=name, verdict="FAIL", what=f"ranks have different versions: {', '.join(versions)}", next=hint)
    what = f"{versions[0]}, built {_build_target(builds[0])}"
    number = tuple(map(int, re.findall(r"\d+", versions[0])[:2]))
    if _OLDEST_TENSORFLOW <= number <= _NEWEST_TENSORFLOW:
        return Check(name=name, verdict="PASS", what=what)
    return Check(name=name, verdict="WARN", what=f"{what}; hpclaunch.training was tried with 2.9 to 2.20", next=hint)


def horovod_check(evidence: ProbeEvidence) -> Check:
    """Return the check of Horovod's build: MPI where the launcher needs it, and NCCL where GPUs compute."""
    name, builds = "Horovod", evidence.values_of("horovod")
    if not builds:
        lacking = lacking_check(evidence, name, "horovod", "horovod")
        if lacking:
            return replace(lacking, next=f"{lacking.next}; {_OF_PYTORCH}")
        problem = evidence.problem_in("horovod") or "no rank has loaded it"
        hint = "correct TensorFlow first (above)"
        if evidence.values_of("tensorflow"):
            hint = "build it with this TensorFlow: HOROVOD_WITH_TENSORFLOW=1"
            hint += ", and HOROVOD_WITH_MPI=1 for this launcher" if evidence.launcher.needs_mpi else ""
            hint += f"; {_OF_PYTORCH}"
        return Check(name=name, verdict="FAIL", what=problem, next=hint)
    build, layout = builds[0], evidence.spec["layout"]
    parts = [word for word, key in (("MPI", "mpi"), ("Gloo", "gloo"), ("NCCL", "nccl")) if build[key]]
    what = f"{build['version']}, built with {', '.join(parts) or 'no way to communicate'}"
    if evidence.launcher.needs_mpi and not build["mpi"]:
        hint = "build it with HOROVOD_WITH_MPI=1, or use --launcher horovodrun on one node"
        return Check(name=name, verdict="FAIL", what=f"{what}: {evidence.spec['launcher']} needs MPI", next=hint)
    has_real_gpus = layout["gpus_per_node"] and not layout["stand_in_gpus"]
    if has_real_gpus and not build["nccl"]:
        hint = "build it with HOROVOD_GPU_OPERATIONS=NCCL"
        return Check(name=name, verdict="WARN", what=f"{what}: gradients go through the host's memory", next=hint)
    return Check(name=name, verdict="PASS", what=what)
