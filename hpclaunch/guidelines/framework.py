"""Which framework connects the ranks, how they update, and why each alternative is declined; it knows no site."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.core.spec import JAX, MPI, PYTORCH
from hpclaunch.guidelines.reasoning import GUIDELINES, Reason

_FRAMEWORK = f"{GUIDELINES}, distributed training framework"
_UPDATES = f"{GUIDELINES}, synchronous, asynchronous or hybrid SGD"


@record
class Passed:
    """An alternative that is declined, and why."""

    name: str
    why: str
    source: str


MESH_TENSORFLOW = Passed(
    name="Mesh-TensorFlow",
    why="for a split model the guidelines suggest it; its last version, 0.1.21, cannot be imported with TensorFlow 2.14"
    " or newer, needs the model rewritten without Keras, and connects nodes with gRPC",
    source=f"{GUIDELINES}, data parallel or model parallel; tried by this project",
)
"""The guidelines' tool for model and model-data parallel training."""


@record
class Selection:
    """The choice, its reason, and every declined alternative."""

    name: str
    reason: Reason
    declined: tuple[Passed, ...]


OTHER_FRAMEWORKS = {
    PYTORCH: Reason(
        rule="PyTorch's ranks are connected by torch.distributed",
        verdict="torch.distributed: NCCL between GPUs, Gloo between CPUs; the launcher starts a process for each rank",
        source="PyTorch documentation, torch.distributed (docs.pytorch.org/docs/stable/distributed.html)",
    ),
    JAX: Reason(
        rule="JAX's ranks are connected by jax.distributed",
        verdict="jax.distributed; it learns a rank's place from srun and mpirun, elsewhere the program passes it",
        source="JAX documentation, multi-process programming (docs.jax.dev/en/latest/multi_process.html)",
    ),
    MPI: Reason(
        rule="a program that calls MPI connects its own ranks",
        verdict="MPI itself; mpirun of the same MPI library starts the ranks, or srun with the interface that it uses",
        source="MPI standard 4.1, portable MPI process startup; MPI guide of Slurm (slurm.schedmd.com/mpi_guide.html)",
    ),
}
"""Framework -> what connects its ranks. The guidelines compare ways to connect those of TensorFlow alone."""


def choose_framework() -> Selection:
    """Return Horovod on MPI, always for TensorFlow, with every alternative of the guidelines and why it is declined.

    Source: guidelines, "use Horovod-MPI unless you have access to Cray machine". The exception no longer applies,
    because Cray's plugin is no longer developed.
    """
    return Selection(
        name="Horovod on MPI",
        reason=Reason(
            rule="Horovod on MPI, unless a Cray provides its own plugin",
            verdict="Horovod on MPI, on Crays too: their plugin ended with version 23.09.1",
            source=_FRAMEWORK,
        ),
        declined=(
            Passed(
                name="Cray PE DL plugin",
                why="its last version, 23.09.1, is for TensorFlow 2.11; CPE 24.11 has no newer one;"
                " no site that hpclaunch knows offers it",
                source=f"{_FRAMEWORK}; cpe.ext.hpe.com/docs/24.11/csml/cray_dl_plugin.html",
            ),
            Passed(
                name="gRPC",
                why="never on HPC: it runs on TCP sockets without the interconnect's RDMA, and needs its own list of"
                " hosts and open ports besides the launcher; parameter servers and multi-worker tf.distribute,"
                " which use it, are declined too",
                source=_FRAMEWORK,
            ),
            Passed(
                name="Horovod-MLSL",
                why="MLSL was Intel's library for its own CPUs; Horovod 0.28 uses oneCCL instead",
                source=_FRAMEWORK,
            ),
        ),
    )


def choose_updates() -> Selection:
    """Return synchronous SGD, with every other scheme of the guidelines and why it is declined.

    Source: guidelines, "use synchronous SGD for reproduction and easy to converge".
    """
    return Selection(
        name="synchronous SGD",
        reason=Reason(
            rule="synchronous SGD, to reproduce a run and to converge easily",
            verdict="synchronous: every step averages the gradients of all ranks",
            source=_UPDATES,
        ),
        declined=(
            Passed(
                name="asynchronous",
                why="its gradients are stale: runs cannot be reproduced, and convergence must be studied for each"
                " problem; only for well-studied algorithms",
                source=_UPDATES,
            ),
            Passed(
                name="lag-synchronous",
                why="it applies the gradient of the previous step, so the theory of large batches does not hold;"
                " worth it only where communication takes longer than the backward pass; the training library has it"
                " as gradient_lag, which no plan chooses",
                source=f"{_UPDATES}; Kurth et al. 2018, arXiv 1810.01993",
            ),
            Passed(
                name="hybrid",
                why="synchronous groups under asynchronous parameter servers: not straightforward, and not in Horovod;"
                " update_groups, which no plan chooses, averages the weights of synchronous groups every few steps",
                source=f"{_UPDATES}; Kurth et al. 2017, arXiv 1708.05256",
            ),
            Passed(
                name="pipelined",
                why="another name for the lag-synchronous (stale-synchronous) form, with the same staleness",
                source=_UPDATES,
            ),
        ),
    )
