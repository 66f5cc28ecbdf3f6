"""What the studies run: the article's ranks, and one small training of every job; a case is one run of any study."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run: `replicas` copies of the model with `batch` samples each; published: (samples/s, accuracy), if any."""

    name: str
    job: str
    replicas: int
    batch: int
    strategy: str = "horovod"
    switches: tuple[str, ...] = ()
    published: str = ""

    @property
    def ranks(self) -> int:
        """How many processes hold the replicas."""
        return 1 if self.in_one_process else self.replicas

    @property
    def in_one_process(self) -> bool:
        """Whether one process holds all replicas, each on a CPU device of its own."""
        return self.strategy in ("mirrored", "central-storage", "one-device")


# The article: shards with the batch divided among the ranks, the generator with the same batch on every rank. Read
# anew in every epoch, as there: kept in memory, all images would take 3 GB in each rank of the generator.
ARTICLE = tuple(
    Case(
        name=f"{distribution}-{ranks}",
        job="chips",
        replicas=ranks,
        batch=64 // ranks if distribution == "shards" else 64,
        switches=(f"--distribution={distribution}", "--input=stream"),
    )
    for distribution in ("shards", "generator")
    for ranks in (1, 2, 4)
)

# Batch sizes that a desktop's memory holds; half of each is run as well.
JOBS = {"mnist": 256, "cifar": 256, "chips": 8, "cosmoflow": 2, "resnet50": 8}

# Shows that everything runs, nothing else.
SMALL = {
    "mnist": ("--synthetic=true", "--synthetic-samples=256"),
    "cifar": ("--synthetic=true", "--synthetic-samples=256"),
    "chips": ("--synthetic=true", "--synthetic-samples=24", "--image-size=64"),
    "cosmoflow": ("--synthetic=true", "--synthetic-samples=16", "--volume-size=32"),
    "resnet50": ("--synthetic=true", "--synthetic-samples=32", "--image-size=32", "--classes=4", "--crop=0"),
}
SMALL_BATCHES = {"mnist": 32, "cifar": 32, "chips": 8, "cosmoflow": 2, "resnet50": 4}
# Enough to time steps of the documented shape; drawn or made up where there are no data here.
TIMED = {
    "mnist": ("--train-samples=8192",),
    "cifar": ("--train-samples=8192",),
    "chips": ("--synthetic=true", "--synthetic-samples=24"),
    "cosmoflow": ("--synthetic=true", "--synthetic-samples=16"),
    "resnet50": ("--synthetic=true", "--synthetic-samples=128"),
}
