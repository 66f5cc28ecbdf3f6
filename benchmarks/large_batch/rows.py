"""The rows of the study: who trains with which switches, and what the reference gave; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass

RANKS = 8
BATCH_SIZE_PER_RANK = 512
EPOCHS = 12
SPEED_EPOCHS = 2
"""Of the runs that give images/s: all rows one after the other on one machine, so that they can be compared."""
SEEDS = (1, 2, 3)

JOB = "jobs/cifar/train.py"  # every rank reads its own shard
UNSHARDED = "benchmarks/large_batch/unsharded.py"  # the reference's input: every rank draws from all images

# What hpclaunch recommends for a global batch of 4096, by its own rules (hpclaunch/guidelines): Adam stays, its rate
# grows with the square root of the batch, warm-up over two epochs, then cosine decay; batch norm over each rank's
# batch.
RECIPE = ("--optimizer=adam", "--scale-learning-rate=sqrt", "--warmup-epochs=2", "--decay=cosine")
SCALED = ("--scale-learning-rate=linear",)
WARMED_UP = (*SCALED, "--warmup-epochs=3")
# tensorflow-addons' LAMB has no exclusions unless told.
LAMB = ("--optimizer=lamb", "--exclude-vectors=false", *WARMED_UP)
# A rate of LARS multiplies its trust of 0.001: with momentum 0.9, a rate of 8 changes a layer by up to 8 % in a step.
LARS = ("--optimizer=lars", "--learning-rate=1", *WARMED_UP)
# Muon's steps have the size of Adam's (training/optimization/muon.py); it takes all matrices here, those of the first
# and the last layer too, which its publication leaves to AdamW.
MUON = (
    "--optimizer=muon",
    "--muon-weights=matrices",
    "--learning-rate=0.01",
    "--scale-learning-rate=none",
    "--warmup-epochs=1",
    "--decay=cosine",
)
# Until 2026-11-28 Muon took all matrices, and its momentum was that of the other optimizers.
FORMER = {"--momentum=0.95": "--muon-weights=matrices"}
"""Switches of earlier versions with their present names."""
# For the test accuracy: every second image is mirrored, and all are shifted by up to three pixels.
MOVED = ("--flip-horizontal=true", "--crop=3")
# Ghost batch norm: Hoffer 2017 (arXiv 1705.08741).
GHOST = ("--batch-norm=ghost", "--ghost-batch-size=128")
# Every rank draws from all images, in an order of its own.
OWN_ORDER = ("--own-order=true",)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: `published` and `repeated` are training accuracies in %; None: there is none.

    published: of the notebook's table, V100. repeated: by its scripts, changed only in how they read, on the data of
    this study, one run each; measured by others than this project's developers, and not part of its figures.
    """

    name: str
    words: str
    program: str
    switches: tuple[str, ...]
    ranks: int = RANKS
    published: float | None = None
    repeated: float | None = None

    @property
    def sharded(self) -> bool:
        return self.program == JOB


ROWS = (
    Row(name="recommended", words="what hpclaunch recommends", program=JOB, switches=RECIPE),
    Row(
        name="one",
        words="one rank",
        program=UNSHARDED,
        switches=("--batch-norm=none",),
        ranks=1,
        published=71,
        repeated=71,
    ),
    Row(
        name="naive",
        words="eight ranks, nothing else changed",
        program=UNSHARDED,
        switches=("--batch-norm=none",),
        published=44,
        repeated=45.3,
    ),
    Row(
        name="naive-sharded",
        words="eight ranks, nothing else changed",
        program=JOB,
        switches=("--batch-norm=none",),
    ),
    Row(
        name="scaling",
        words="scaling, batch norm, no warm-up",
        program=UNSHARDED,
        switches=SCALED,
        published=53,
        repeated=52.5,
    ),
    Row(
        name="warm-up",
        words="scaling, warm-up, batch norm",
        program=UNSHARDED,
        switches=WARMED_UP,
        published=65,
        repeated=65.1,
    ),
    Row(
        name="batch-norm",
        words="batch norm alone",
        program=UNSHARDED,
        # The notebook's text adds batch norm alone. Its script of this step is the one of the row `warm-up`, byte by
        # byte, so that its 64 % are a second run of that row.
        switches=(),
        published=64,
    ),
    Row(
        name="batch-norm-own-order",
        words="batch norm alone, each rank in its own order",
        program=UNSHARDED,
        switches=OWN_ORDER,
    ),
    Row(name="batch-norm-sharded", words="batch norm alone", program=JOB, switches=()),
    Row(
        name="lamb",
        words="LAMB, scaling, warm-up, batch norm",
        program=UNSHARDED,
        # The reference's scripts with LAMB set no seed, so that the ranks draw in different orders.
        switches=(*LAMB, *OWN_ORDER),
        published=81,
        repeated=81.2,
    ),
    Row(name="muon", words="Muon, warm-up, cosine decay, batch norm", program=JOB, switches=MUON),
    Row(
        name="muon-moved",
        words="the same, images mirrored and shifted",
        program=JOB,
        switches=(*MUON, *MOVED),
    ),
    Row(
        name="lamb-ghost",
        words="LAMB, scaling, warm-up, ghost batch norm",
        program=UNSHARDED,
        switches=(*LAMB, *GHOST, *OWN_ORDER),
    ),
    Row(
        name="lars",
        words="LARS, scaling, warm-up, batch norm",
        program=UNSHARDED,
        switches=(*LARS, *OWN_ORDER),
    ),
)
BY_NAME = {row.name: row for row in ROWS}
