"""How a value of a site file is said in words."""

from __future__ import annotations

import re
from typing import Any

from hpclaunch.core.units import count

_COUNTED: dict[str, tuple[str, str]] = {
    "nodes": ("{}", "node"),
    "sockets": ("{}", "socket"),
    "cores_per_node": ("{}", "core"),
    "usable_cores": ("{} for jobs", "core"),
    "threads_per_core": ("{} a core", "thread"),
    "cpus_per_core": ("{} a core in Slurm", "CPU"),
    "numa_domains": ("{}", "NUMA domain"),
    "gpus_per_node": ("{}", "GPU"),
    "nics.count": ("{}", "card"),
    "default_tasks_per_node": ("usually {} a node", "task"),
    "default_cpus_per_task": ("usually {} a task", "CPU"),
    "min_nodes": ("at least {}", "node"),
    "max_nodes": ("at most {}", "node"),
    "max_gpus_per_node": ("at most {} a node", "GPU"),
    "max_jobs": ("{} a user", "job"),
    "max_running": ("{} a user", "running job"),
}
"""How a number of something is said, and of what."""
_WORDS: dict[str, str] = {
    "memory_gb": "{} GB",
    "request_memory": "{} is asked for with a whole node",
    "gpu_memory_gb": "{} GB each",
    "gpu_type": "type {} in --gres",
    "gpu_links.pair_gbytes_per_s": "{} GB/s between a pair",
    "gpu_links.slowest_pair_gbytes_per_s": "{} GB/s between the slowest pair",
    "gpu_links.gpu_gbytes_per_s": "{} GB/s out of a GPU",
    "nics.gbytes_per_s_each": "{} GB/s each",
    "whole_node.cpu_bind": "--cpu-bind={}",
    "max_walltime": "at most {}",
    "charge_factor": "costs x {}",
    "node_types": "for {}",
    "sbatch": "with {}",
    "counts": "for every {} and hour",
    "rate": "x {}",
    "directive": "--{}",
    "srun": "srun says --{} again",
    "mpi": "--mpi={}",
    "cpu_bind": "--cpu-bind={}",
    "gpu_bind": "--gpu-bind={}",
    "qos": "QOS {}",
    "detect.cluster_name": "ClusterName={} in slurm.conf",
    "export": "no --export=NONE: the submitting environment comes along ({})",
    "detect.hostname": "the host's name, which matches {}",
}
"""How another value is said; what is not here is said as ``key value``, or as the value where the row says the key."""
_PLAIN = {"title", "status", "scheduler", "interconnect", "note", "cpu", "gpu_model", "gpu_links.type", "nics.model"}
_PLAIN |= {"local_storage", "unit", "required", "rank_setup", "provides", "warn", "extra", "task_directives", "notes"}
_PLAIN |= {
    "modules",
    "container",
    "venv",
    "conda",
    "python",
    "setup",
    "runtime",
    "options",
    "default",
    "refuses",
    "remove",
}
_PLAIN |= {"runs", "data", "node_private"}
_JOINED = {"setup": "; ", "rank_setup": "; ", "options": " ", "extra": " "}
_SWITCHES = {
    ("whole_nodes", True): "whole nodes only",
    ("whole_nodes", False): "nodes may be shared",
    ("only_if_asked", True): "only if asked for",
    ("only_if_asked", False): "may be chosen for you",
    ("implicit", True): "in force without a directive",
    ("implicit", False): "needs its directive",
    ("stand_in_gpus", True): "stand-ins that compute nothing",
    ("stand_in_gpus", False): "real ones",
    ("login_shell", True): "login shell (bash -l)",
    ("login_shell", False): "no login shell",
    ("ssh", True): "nodes of a job may be entered with ssh",
    ("ssh", False): "nodes of a job may not be entered with ssh",
}
_NONE = {
    "export": "--export=NONE",
    "cpu_bind": "--cpu-bind=none",
    "gpu_bind": "--gpu-bind=none",
    "": "nothing more is said",
    "task_directives": "none: the launcher alone says them",
    "gpus.directive": "no directive: they come with the nodes",
}
_VARIABLE = re.compile(r"(?:.*\.)?variables\.|detect\.environment\.")


def text_of(key: str, value: Any) -> str:
    """Return a value in words; ``key`` is its place below the row's own."""
    name = key.rpartition(".")[2]
    variable = _VARIABLE.match(key)
    if variable:
        return f"{key[variable.end() :]}={str(value).lower() if isinstance(value, bool) else value}"
    if key.startswith("by_node_type."):
        return f"{key.split('.')[1]}: {text_of(name, value)}"
    if isinstance(value, bool):
        return _SWITCHES.get((name, value), f"{spaced(key)}: {'yes' if value else 'no'}")
    if value in ({}, [], "none", None):
        return _NONE.get(key, f"{spaced(key)}: none")
    return _phrase(key, name, value)


def _phrase(key: str, name: str, value: Any) -> str:
    if name == "bins":
        return "; ".join(f"{one['max_walltime']} with up to {count(one['max_nodes'], 'node')}" for one in value)
    pattern, noun = _COUNTED.get(key) or _COUNTED.get(name) or ("", "")
    if noun and isinstance(value, int):
        return pattern.format(count(value, noun))
    shown = _JOINED.get(name, ", ").join(map(str, value)) if isinstance(value, list) else str(value)
    plain = "{}" if {key, name} & _PLAIN else f"{spaced(key)} {{}}"
    return (_WORDS.get(key) or _WORDS.get(name) or plain).format(shown)


def spaced(key: str) -> str:
    """Return a key as words."""
    return key.replace("_", " ").replace(".", " ")
