"""Tells which modules of others a Python program may import, and what its source does not show of them; pure."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping

from hpclaunch.config.program_names import last_name
from hpclaunch.config.program_reader import Source, imports_of

_LOADING_A_MODULE = ("import_module", "__import__", "run_module")
_LOADING = (*_LOADING_A_MODULE, "run_path", "exec", "entry_points")
"""Functions that run code which the source of their caller does not contain."""
_WITHOUT = frozenset(
    (
        *("absl", "attr", "click", "cupy", "cv2", "cython", "dask", "dateutil", "docopt", "fire", "h5py", "hydra"),
        *("imageio", "joblib", "jinja2", "loguru", "matplotlib", "mpi4py", "netCDF4", "networkx", "numba", "numpy"),
        *("nvtx", "omegaconf", "optuna", "packaging", "pandas", "PIL", "pkg_resources", "plotly", "polars", "psutil"),
        *("pyarrow", "pydantic", "pynvml", "pytz", "requests", "rich", "scipy", "seaborn", "setuptools", "simplejson"),
        *("six", "skimage", "sklearn", "sympy", "tabulate", "toml", "tqdm", "typer", "typing_extensions", "tyro"),
        *("xarray", "yaml", "zarr", "zstandard"),
    )
)
"""Modules of others that import no framework."""
_MOST_NAMES = 3


def modules_in(sources: Mapping[str, Source | None], local: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the modules of others that a program may import, and why there may be more.

    ``sources``: by name the program's file and the modules beside it that it imports, whose top names are ``local``;
    None is one that cannot be read. A module is its top name; one of horovod or hpclaunch.training has a longer one,
    too.
    """
    found: dict[str, None] = {}
    reasons = []
    for file, source in sources.items():
        if source is None:
            reasons.append(f"{file} cannot be read as Python {sys.version_info.major}.{sys.version_info.minor}")
            continue
        for module in _module_names(source):
            top = module.split(".")[0]
            if top not in local and top not in sys.stdlib_module_names:
                found |= dict.fromkeys((top, *_longer_name(module)))
        reasons += [f"{file}:{line} loads code whose name is not in the source" for line in _hidden(source)][:1]
    foreign = [
        name for name in found if "." not in name and name not in _WITHOUT and name not in ("horovod", "hpclaunch")
    ]
    if foreign:
        names = ", ".join(foreign[:_MOST_NAMES]) + (", …" if len(foreign) > _MOST_NAMES else "")
        reasons.append(f"what {names} imports is not known")
    return tuple(found), tuple(reasons)


def _longer_name(module: str) -> tuple[str, ...]:
    """Return what tells the framework behind a module whose top name does not: ``horovod.torch``."""
    parts = module.split(".")
    if parts[0] == "horovod":
        return (".".join(parts[:2]),)
    return (module,) if module.startswith("hpclaunch.training") else ()


def _module_names(source: Source) -> Iterator[str]:
    """Yield the dotted names of modules, those of ``import_module("torch")`` included."""
    yield from (module for level, module in imports_of(source) if not level and module)
    for call in _loading_calls(source):
        name = _plain_name(call)
        if name and not name.startswith("."):
            yield name


def _plain_name(call: ast.Call) -> str:
    """Return the name of a module that a call loads; empty if the source does not tell it."""
    first = call.args[0] if call.args else None
    is_plain = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return first.value if is_plain and last_name(call.func) in _LOADING_A_MODULE else ""  # type: ignore[union-attr]


def _hidden(source: Source) -> Iterator[int]:
    """Yield the lines that load code of which the source does not tell the name."""
    yield from (call.lineno for call in _loading_calls(source) if not _plain_name(call))


def _loading_calls(source: Source) -> Iterator[ast.Call]:
    return (node for node in ast.walk(source) if isinstance(node, ast.Call) and last_name(node.func) in _LOADING)
