"""Every technique on real ranks: the same weights on all, and those of one process wherever the technique is exact."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training import reduction
from tests.horovod.conftest import PROGRAMS, Ended

MPI = shutil.which("mpirun") is not None and hvd.mpi_built()
# How far weights may be from those of Keras alone; None: the technique changes what is computed.
TOLERANCE = {
    "synchronized": 1e-6,
    "lars": 1e-4,  # its steps are of size 1 here
    "lamb": 2e-6,
    "accumulation": 2e-6,  # Adam, in uneven parts
    "weights of samples": 2e-6,
    "changing rate": 2e-6,
    "xla": 2e-6,
    "float16": 1e-3,
    "bfloat16": None,
    "ghost": None,
    "adascale": None,
    "adasum": 2e-6,  # the last one, as it ends ranks that talk through Gloo
}


@pytest.fixture(scope="module")
def two(ranks: Callable[..., Ended]) -> Ended:
    """Every technique on two ranks that talk through Gloo, where Adasum is refused."""
    return ranks(PROGRAMS / "techniques.py", *TOLERANCE, OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def four(ranks: Callable[..., Ended]) -> Ended:
    """Every technique on four ranks, through MPI where there is one."""
    cases = [case for case in TOLERANCE if MPI or case != "adasum"]
    ended = ranks(PROGRAMS / "techniques.py", *cases, size=4, mpi=MPI, OMP_NUM_THREADS="1")
    assert ended.code == 0, ended.text
    return ended


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


def check(ended: Ended, case: str, size: int) -> None:
    all_ranks_agree(ended, case, size)
    tolerance = TOLERANCE[case]
    if tolerance is not None:
        as_one_process(ended, case, tolerance)


@pytest.mark.parametrize("case", [case for case in TOLERANCE if case != "adasum"])
def test_two_ranks_hold_the_same_weights(two: Ended, case: str) -> None:
    check(two, case, size=2)


@pytest.mark.parametrize("case", TOLERANCE)
def test_four_ranks_hold_the_same_weights(four: Ended, case: str) -> None:
    if case == "adasum" and not MPI:
        pytest.skip("group horovod-mpi: needs mpirun and a Horovod that is built with MPI")
    check(four, case, size=4)


def test_adascale_finds_a_gain_that_all_ranks_share(four: Ended) -> None:
    gains = [float(np.load(four.run_dir / f"adascale-{rank}.npz")["gain"]) for rank in range(4)]
    assert len(set(gains)) == 1
    assert 1 < gains[0] <= 4


def test_gloo_refuses_adasum(two: Ended) -> None:
    assert two.code != 0
    assert two.speakers("Adasum needs MPI") == ["0"]
    assert (two.run_dir / "exit-code").read_text() == "1\n"


@pytest.mark.parametrize(
    ("size", "built", "enabled", "message"),
    [
        (1, False, False, ""),
        (4, True, True, ""),
        (6, True, True, "power of two, not 6"),
        (2, False, False, "built with Gloo alone"),
        (2, True, False, "use the launcher srun or mpirun"),
    ],
)
def test_where_adasum_can_work(size: int, built: bool, enabled: bool, message: str) -> None:
    found = reduction.why_no_adasum(size, built, enabled)
    assert message in found and bool(found) == bool(message)
