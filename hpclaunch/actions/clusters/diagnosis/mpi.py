"""Whether the launcher joined all ranks into one job of MPI, or of Gloo. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpclaunch.actions.clusters.diagnosis.evidence import Check, Facts, ProbeEvidence
from hpclaunch.core.spec import JAX, PYTORCH, TENSORFLOW
from hpclaunch.core.units import count

_OWN_ERRORS = re.compile(r"OPAL ERROR|MPI_Init|PMIX? ERROR|PMI2?_Init|mpi/pmi")
"""Errors of MPI and PMI in a log."""
_LONGEST_ERROR = 200


def mpi_check(evidence: ProbeEvidence) -> Check:
    """Return the check of the world: every rank sees all ranks, and a sum over them is right."""
    layout, launch = evidence.spec["layout"], _launch_words(evidence)
    size = layout["nodes"] * layout["tasks_per_node"]
    worlds = evidence.values_of("world")
    if not worlds:
        return _missing_world_check(evidence, launch)
    problem = _world_problem(worlds, size, launch)
    if problem:
        return Check(name="MPI", verdict="FAIL", what=problem, next=_mpi_hint(evidence))
    files = [path.rpartition("/")[2] for path in worlds[0]["libraries"] if "/libmpi" in path]
    library = f" ({files[0]})" if files else ""
    return Check(name="MPI", verdict="PASS", what=f"{count(size, 'rank')} in one job under {launch}{library}")


def refused_mpi_check(evidence: ProbeEvidence) -> Check | None:
    """Return a failed check if the launcher started no rank because it lacks the type of MPI, else None."""
    mpi = evidence.launcher.mpi_option
    if mpi is None:
        return None
    errors = [line for line in evidence.log_lines if re.search(mpi.refusal, line, re.IGNORECASE)]
    if not errors:
        return None
    program = mpi.listing.split()[0]
    what = f"{program} does not support {mpi.option}{_mpi_type(evidence)}: {errors[0][:_LONGEST_ERROR]}"
    return Check(name="MPI", verdict="FAIL", what=what, next=_mpi_hint(evidence))


def _world_problem(worlds: Sequence[Facts], size: int, launch: str) -> str:
    """Return what is wrong with the ranks' worlds, of which there should be one of ``size`` ranks; else nothing."""
    sizes = sorted({world["size"] for world in worlds})
    if sizes == [1] and size != 1:
        return f"under {launch} each rank starts as a separate one-rank job; {size} ranks in one job were requested"
    if sizes != [size]:
        numbers = ", ".join(map(str, sizes))
        return f"under {launch} the ranks form jobs of {numbers} ranks; {size} ranks in one job were requested"
    if len(worlds) < size or {world["rank"] for world in worlds} != set(range(size)):
        return f"only {len(worlds)} of {size} ranks joined under {launch}"
    if {world["sum"] for world in worlds} != {float(size)}:
        return f"a sum over {count(size, 'rank')} has a wrong result"
    return ""


def _missing_world_check(evidence: ProbeEvidence, launch: str) -> Check:
    """Return the failed check of ranks none of which has a world."""
    reached_mpi = any(rank["step"] == "world" for rank in evidence.ranks)
    if not reached_mpi:
        what = f"it is unknown whether {launch} joins the ranks: no rank got as far as MPI"
        libraries = "TensorFlow and Horovod" if evidence.framework == TENSORFLOW else evidence.framework_title
        return Check(name="MPI", verdict="FAIL", what=what, next=f"correct {libraries} first (below)")
    error = evidence.problem_in("world") or _mpi_error_line(evidence)
    library = {PYTORCH: "torch.distributed", JAX: "jax.distributed"}.get(evidence.framework, "Horovod")
    what = f"{library} started on no rank under {launch}" + (f": {error[:_LONGEST_ERROR]}" if error else "")
    return Check(name="MPI", verdict="FAIL", what=what, next=_mpi_hint(evidence))


def _mpi_error_line(evidence: ProbeEvidence) -> str:
    """Return the first error line of MPI or PMI, else the most useful line of the log."""
    own = (line for line in evidence.log_lines if _OWN_ERRORS.search(line))
    return next(own, "") or evidence.error_line


def _launch_words(evidence: ProbeEvidence) -> str:
    """Return the launcher's name, with the type of MPI if it has that option: ``srun --mpi=pmix``."""
    launcher, mpi, mpi_type = str(evidence.spec["launcher"]), evidence.launcher.mpi_option, _mpi_type(evidence)
    return f"{launcher} {mpi.option}{mpi_type}" if mpi and mpi_type else launcher


def _mpi_type(evidence: ProbeEvidence) -> str:
    """Return the type of MPI: that of the launch line, else that of the first rank; empty if there is none."""
    mpi = evidence.launcher.mpi_option
    if mpi is None:
        return ""
    typed = [word.removeprefix(mpi.option) for word in evidence.spec["launch"] if word.startswith(mpi.option)]
    if typed:
        return str(typed[0])
    seen = [assigned.get(mpi.variable, "") for assigned in evidence.values_of("assigned")]
    return next((str(name) for name in seen if name), "")


def _mpi_hint(evidence: ProbeEvidence) -> str:
    mpi = evidence.launcher.mpi_option
    if mpi is None:
        return "check 'launchers' in the site file; hpclaunch submit --launcher tries another"
    others = [name for name in evidence.mpi_types if name not in (_mpi_type(evidence), "none")]
    program = mpi.listing.split()[0]
    known = f"{program} has {', '.join(others)}" if others else f"{mpi.listing} shows the types"
    return f"set {mpi.key} in the site file: {known} ({mpi.advice})"
