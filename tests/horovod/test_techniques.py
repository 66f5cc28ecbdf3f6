"""Every technique on real ranks: the same weights on all, and those of one process wherever the technique is exact."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from typing import Any

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization import reduction
from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

MPI = shutil.which("mpirun") is not None and hvd.mpi_built()
# How far weights may be from those of Keras alone; None: the technique changes what is computed.
TOLERANCE = {
    "synchronized": 2e-6,  # SGD whose rate changes in every step
    "lars": 1e-4,  # its steps are of size 1 here
    "lamb": 2e-6,
    "accumulation": 2e-6,  # Adam, in uneven parts, with sample weights
    "xla": 2e-6,
    "lag": 2e-6,
    "float16": 1e-3,
    "bfloat16": None,
    "ghost": None,
    "adascale": None,
}
CASES = {2: list(TOLERANCE), 4: list(TOLERANCE) if LONG else ["adascale"]}


@pytest.fixture(scope="module")
def launches(ranks: Callable[..., Ended]) -> Callable[[int], Ended]:
    """Every technique on so many ranks, one launch for all; on two also Adasum, which Gloo refuses."""

    @functools.cache
    def launch(size: int) -> Ended:
        cases = [*CASES[size], "adasum"] if size == 2 else CASES[size]
        ended = ranks(PROGRAMS / "techniques.py", *cases, size=size, OMP_NUM_THREADS="1")
        assert (ended.code == 0) == (size != 2), ended.text
        return ended

    return launch


def weights(ended: Ended, case: str, rank: int, kind: str) -> list[Any]:
    with np.load(ended.run_dir / f"{case}-{rank}.npz") as held:
        return [held[f"{kind}-{n}"] for n in range(sum(name.startswith(kind) for name in held.files))]


def all_ranks_agree(ended: Ended, case: str, size: int) -> None:
    for kind in ("before", "ranks"):
        first = weights(ended, case, 0, kind)
        assert len(first) >= 4
        for rank in range(1, size):
            for mine, theirs in zip(first, weights(ended, case, rank, kind), strict=True):
                np.testing.assert_array_equal(mine, theirs)


def as_one_process(ended: Ended, case: str, tolerance: float) -> None:
    before, found, expected = [weights(ended, case, 0, kind) for kind in ("before", "ranks", "alone")]
    for n, value in enumerate(expected):
        np.testing.assert_allclose(found[n], value, atol=tolerance, rtol=1e-5, err_msg=f"weight {n}")
    assert max(np.abs(a - b).max() for a, b in zip(before, found, strict=True)) > 10 * tolerance  # it has learned


@pytest.mark.parametrize(("size", "case"), [(size, case) for size, cases in CASES.items() for case in cases])
def test_all_ranks_hold_the_same_weights(launches: Callable[[int], Ended], size: int, case: str) -> None:
    ended, tolerance = launches(size), TOLERANCE[case]
    all_ranks_agree(ended, case, size)
    if tolerance is not None:
        as_one_process(ended, case, tolerance)


def test_adascale_finds_a_gain_that_all_ranks_share(launches: Callable[[int], Ended]) -> None:
    gains = [float(np.load(launches(4).run_dir / f"adascale-{rank}.npz")["gain"]) for rank in range(4)]
    assert len(set(gains)) == 1
    assert 1 < gains[0] <= 4


@pytest.mark.long_tier  # four ranks that wait in MPI on two cores; what Gloo refuses is below
def test_adasum_adds_four_ranks_by_their_angles(ranks: Callable[..., Ended]) -> None:
    if not MPI:
        pytest.skip("group horovod-mpi: needs mpirun and a Horovod that is built with MPI")
    # Nothing else here: ranks that wait in MPI take turns with those that work, which is slow on few cores.
    ended = ranks(PROGRAMS / "techniques.py", "adasum", size=4, mpi=True, OMP_NUM_THREADS="1")
    assert ended.code == 0, ended.text
    all_ranks_agree(ended, "adasum", size=4)
    as_one_process(ended, "adasum", 2e-6)


def test_gloo_refuses_adasum(launches: Callable[[int], Ended]) -> None:
    ended = launches(2)
    assert ended.speakers("Adasum needs MPI") == ["0"]
    assert (ended.run_dir / "exit-code").read_text() == "1\n"


@pytest.mark.parametrize(
    ("size", "built", "enabled", "message"),
    [
        (1, False, False, ""),
        (4, True, True, ""),
        (6, True, True, "power of two, not 6"),
        (2, False, False, "built with Gloo only"),
        (2, True, False, "use the launcher srun or mpirun"),
    ],
)
def test_where_adasum_can_work(size: int, built: bool, enabled: bool, message: str) -> None:
    found = reduction.why_no_adasum(size, built, enabled)
    assert message in found and bool(found) == bool(message)
