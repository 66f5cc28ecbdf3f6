"""The key ``detect`` of a site file: how its login nodes are recognized; sites/detect.py inspects this machine."""

from dataclasses import field
from typing import Annotated, Any

from hpclaunch.config.fileformat import Before, Scalar, VariableName
from hpclaunch.config.host_patterns import host_pattern
from hpclaunch.config.wording import shown
from hpclaunch.core.records import record


def _pattern(value: Any) -> Any:
    """Refuse an invalid pattern when the file is read, not when a host name is compared with it."""
    try:
        host_pattern(str(value))
    except ValueError as error:
        raise ValueError(f"is not a pattern for host names: {error}") from None
    return value


@record
class Detect:
    """How a login node is recognized: every given key must hold; ``hostname`` must match the whole host name."""

    environment: dict[VariableName, Scalar] = field(default_factory=dict)
    cluster_name: str | None = field(default=None, metadata=shown("ClusterName={} in slurm.conf"))
    hostname: Annotated[str, Before(_pattern)] | None = field(
        default=None, metadata=shown("the host's name, which matches {}")
    )
