"""Tools that make Slurm clusters in a cloud; a bundled site file says what the clusters of a tool share. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.sites.slurm_text import Fields


@record
class Platform:
    """A tool, by the name of its site file: the start of slurm.conf's ResumeProgram, or a folder, tells its clusters.

    Sources: the slurm.conf of aws-parallelcluster-cookbook @f75d84c and of cluster-toolkit @1047080, and the scripts of
    awsome-distributed-training @0edaf15, which look for the folder.
    """

    name: str
    resume_program: str = ""
    folder: str = ""


PLATFORMS = (
    Platform(name="sagemaker_hyperpod", folder="/opt/sagemaker_cluster"),
    Platform(name="aws_parallelcluster", resume_program="/opt/parallelcluster/"),
    Platform(name="google_cluster_toolkit", resume_program="/slurm/scripts/"),
)


@record
class Shared:
    """What all clusters of a platform share: ``variables`` of every run, and ``folders`` (runs, data, node_private).

    ``environments``: that of the node types with a partition of this name, where the tool's examples name one.
    ``launchers``: the options of each. ``features``: what is known of the nodes with this feature.
    """

    platform: str
    variables: Mapping[str, Any]
    folders: Mapping[str, Any]
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    launchers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def platform_of(config: Fields, folders: Collection[str]) -> str:
    """Return the name of the platform with this slurm.conf and these folders of the machine; empty for none."""
    program = config.get("ResumeProgram", "")
    for one in PLATFORMS:
        if one.folder in folders or (one.resume_program and program.startswith(one.resume_program)):
            return one.name
    return ""


def shared_of(platform: str, content: Mapping[str, Any]) -> Shared:
    """Return what the site file of a platform says of all its clusters."""
    return Shared(
        platform=platform,
        variables=content.get("environment", {}).get("variables", {}),
        folders=content.get("folders", {}),
        environments={
            one["partition"]: one["environment"]
            for one in content["node_types"].values()
            if "partition" in one and "environment" in one
        },
        launchers=content.get("launchers", {}).get("options", {}),
        features={one["constraint"]: one for one in content["node_types"].values() if "constraint" in one},
    )
