"""Which framework joins the ranks, how they update, and why every other way is declined; it looks at no site."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import GUIDELINES, Reason

_FRAMEWORK = f"{GUIDELINES}, distributed training framework"
_UPDATES = f"{GUIDELINES}, synchronous, asynchronous or hybrid SGD"


@record
class Passed:
    """A way that was not taken, and why."""

    name: str
    why: str
    source: str


@record
class Selection:
    """What was chosen, why, and everything that was not."""

    name: str
    reason: Reason
    declined: tuple[Passed, ...]


def choose_framework() -> Selection:
    """Return Horovod on MPI, always, with every alternative of the guidelines and why it is declined.

    Source: guidelines, "use Horovod-MPI unless you have access to Cray machine"; the exception has lapsed.
    """
    return Selection(
        name="Horovod on MPI",
        reason=Reason(
            rule="Horovod on MPI, unless a Cray brings its own plugin",
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
                why="never on HPC: it runs on TCP sockets and uses no RDMA of the interconnect, and needs a list of"
                " hosts and open ports of its own beside the launcher; parameter servers and multi-worker"
                " tf.distribute are declined with it",
                source=_FRAMEWORK,
            ),
            Passed(
                name="Horovod-MLSL",
                why="MLSL was Intel's library for its own CPUs; Horovod 0.28 has oneCCL in its place",
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
                why="stale gradients: no two runs are alike, and convergence must be studied anew; only for"
                " well-studied algorithms",
                source=_UPDATES,
            ),
            Passed(
                name="lag-synchronous",
                why="applies the gradient of the step before, so that a run is no longer the large-batch run of theory;"
                " worth it only where communication outlasts the backward pass",
                source=f"{_UPDATES}; Kurth et al. 2018, arXiv 1810.01993",
            ),
            Passed(
                name="hybrid",
                why="synchronous groups under asynchronous servers: not straightforward, and Horovod has none",
                source=f"{_UPDATES}; Kurth et al. 2017, arXiv 1708.05256",
            ),
            Passed(
                name="pipelined",
                why="another name of the lag-synchronous (stale-synchronous) form, with the same staleness",
                source=_UPDATES,
            ),
        ),
    )
