"""The keys of a job file, and how one is loaded; a person's own script becomes a job without a job file."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from hpclaunch.config.catalog import JOB, Catalog
from hpclaunch.config.data_sets import DataSet
from hpclaunch.config.fileformat import (
    INTERNAL,
    AtLeast,
    Environment,
    FrameworkName,
    KeyFault,
    KeyFaults,
    LauncherName,
    Line,
    Matching,
    Memory,
    PositiveInt,
    ReadBy,
    VariableName,
    Walltime,
    read,
)
from hpclaunch.config.parameter_files import json_files_of, read_parameters
from hpclaunch.config.parameters import Parameter, ParameterName, misfits
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.files import read_bytes
from hpclaunch.core.records import record


@record
class Resources:
    """What the job requests unless a flag overrides it. ``nodes: auto`` lets the planner choose."""

    nodes: Literal["auto"] | PositiveInt = "auto"
    node_type: str | None = None
    tasks_per_node: PositiveInt | None = None
    cpus_per_task: PositiveInt | None = None
    gpus_per_node: Annotated[int, AtLeast(0)] | None = None
    memory: Memory | None = None
    walltime: Walltime | None = None
    exit_wait: PositiveInt = 60


Role = Literal[
    "epochs",
    "steps",
    "batch_size_per_rank",
    "global_batch_size",
    "accumulation",
    "learning_rate",
    "scale_learning_rate",
    "warmup_epochs",
    "decay",
    "decay_power",
    "optimizer",
    "momentum",
    "precision",
    "train_samples",
    "tensor_parallel",
    "pipeline_stages",
    "recompute",
    "shard_optimizer",
    "gradient_lag",
    "update_groups",
]
"""The roles that a job's parameters can have for the planner."""
Figure = Literal[
    "parameters",
    "fixed_parameters",
    "flops_per_sample",
    "saved_bytes_per_sample",
    "largest_layer",
    "operations",
    "replicated_parameters",
    "first_stage_parameters",
    "last_stage_parameters",
    "repeated_bytes_per_sample",
    "kept_bytes_per_sample",
    "layer_bytes_per_sample",
    "tensor_collectives",
    "tensor_bytes_per_sample",
    "decoder_layers",
    "decoder_hidden",
    "decoder_heads",
    "decoder_key_heads",
    "decoder_dense",
    "decoder_context",
    "decoder_vocabulary",
    "decoder_experts",
    "decoder_active_experts",
]
Sized = Literal["samples", "sample_bytes"] | Figure
"""What a formula can give."""
LARGE_BYTES = 8e9
NEEDED_FIGURES = {"parameters", "flops_per_sample", "saved_bytes_per_sample"}


@record
class Training:
    """What the planner can know of a job: its data set (``samples``, bytes of each), its model, its parameters.

    ``model`` is ``module:function`` in the job's folder; ``figures`` are those of the model, per sample and in float32
    (guidelines/figures.py). ``critical_batch`` is in samples; without it, that of the ``task`` is used. ``base_batch``:
    the global batch size that the default learning rate and epochs are for; without it, the default batch size per
    rank. ``names``: the parameter of a role, if its name differs from the role's. ``formulas`` are for a model whose
    size is a setting: they give figures, samples and their bytes for the settings of a request (Job.sized).
    ``rate_is_alone``: the learning rate is that of a recipe without a batch; ``recipe_rate`` and ``recipe_optimizer``:
    the learning rate that a recipe gives, and the optimizer that it is for (Job.with_rate_of). ``rate_is_typed``: the
    run has a typed rate instead, perhaps of the same value.
    """

    samples: PositiveInt
    sample_bytes: PositiveInt | None = None
    task: Literal["mnist", "svhn", "cifar-10", "imagenet", "cosmoflow", "deepcam", "oc20"] | None = None
    critical_batch: PositiveInt | None = None
    base_batch: PositiveInt | None = None
    model: Annotated[str, Matching(re.compile(r"[\w.]+:\w+"), "module:function")] | None = None
    figures: dict[Figure, Annotated[float, AtLeast(0)]] = field(default_factory=dict)
    names: dict[Role, ParameterName] = field(default_factory=dict)
    formulas: dict[Sized, Line] = field(default_factory=dict)
    rate_is_alone: bool = field(default=False, metadata=INTERNAL)
    recipe_rate: float | None = field(default=None, metadata=INTERNAL)
    recipe_optimizer: str | None = field(default=None, metadata=INTERNAL)
    rate_is_typed: bool = field(default=False, metadata=INTERNAL)

    @property
    def large(self) -> bool:
        """Whether weights and gradients alone (8 bytes per parameter) may be too large for some GPU."""
        return 8 * self.figures.get("parameters", 0.0) > LARGE_BYTES

    def __post_init__(self) -> None:
        lacking = sorted(name for name in NEEDED_FIGURES if not self.figures.get(name))  # type: ignore[call-overload]
        if self.figures and lacking:
            raise ValueError(f"'figures' needs {', '.join(lacking)} above zero; add them, or leave 'figures' out")


PLAN, AS_WRITTEN = "plan", "job"
"""The recipes that every job has: the planner's, and the settings of the job file as they are."""


PackageName = Annotated[str, Matching(re.compile(r"[A-Za-z_]\w*", re.ASCII), "the name that Python imports")]
RecipeName = Annotated[str, Matching(re.compile(r"[A-Za-z0-9][\w.-]*"), "letters, digits, '_', '.' and '-'")]


@record
class NamedRecipe:
    """Settings of a job under one name, by parameter name. ``global_batch``: the samples of a step that they are for.

    ``source``: where they were measured or published.
    """

    summary: Line
    settings: Annotated[dict[ParameterName, bool | int | float | str], AtLeast(1)]
    global_batch: PositiveInt | None = None
    source: Line | None = None


@record
class Job:
    """A job: a script with hyper-parameters (config/parameter_files.py), or any command, and what it needs.

    ``restarts``: how often its script may be restarted after it has saved its state; ``signal`` asks it to save.
    ``framework``: what the program trains with. ``imports``: the modules that a script without a job file imports.
    ``may_import``: those that it and its own modules import anywhere (None: nobody looked), ``unread``: why there may
    be others. ``uses_library``: whether the script imports hpclaunch.training, with or without a job file.
    ``formats``: number formats that are the planner's, not the file's.
    ``gpu_view``: whether a rank sees all GPUs of its node's allocation, or one.
    ``rank_logs``: the most ranks that each get a log file of their own. ``strategies``: TensorFlow strategies that the
    program offers instead of Horovod, with the option --strategy=NAME. ``recipes``: settings that belong together.
    ``other_data``: data sets that the parameter ``dataset`` names in place of ``data``.
    ``source_only``: this is a user's own script or command, without a job file. ``in_place``: nothing is copied.
    """

    name: str = field(metadata=INTERNAL)
    folder: str = field(metadata=INTERNAL)
    formats: tuple[tuple[str, str], ...] = field(default=(), metadata=INTERNAL)
    summary: str
    script: Line | None = None
    command: tuple[str, ...] = ()
    parameters: Annotated[dict[str, Parameter], ReadBy(read_parameters)] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    data: DataSet | None = None
    other_data: tuple[DataSet, ...] = ()
    training: Training | None = None
    recipes: dict[RecipeName, NamedRecipe] = field(default_factory=dict)
    environment: Environment = field(default_factory=Environment)
    framework: FrameworkName | None = None
    launcher: LauncherName | None = None
    gpu_view: Literal["all", "one"] | None = None
    restarts: Annotated[int, AtLeast(0)] | None = None
    signal: Line | None = None
    rank_logs: Annotated[int, AtLeast(0)] | None = None
    secret_env: tuple[VariableName, ...] = ()
    packages: tuple[PackageName, ...] = ()
    strategies: tuple[Literal["mirrored", "multiworker", "central-storage", "one-device"], ...] = ()
    sbatch: tuple[Line, ...] = ()
    source_only: bool = field(default=False, metadata=INTERNAL)
    in_place: bool = field(default=False, metadata=INTERNAL)
    recorded: bool = field(default=False, metadata=INTERNAL)
    imports: tuple[str, ...] = field(default=(), metadata=INTERNAL)
    may_import: tuple[str, ...] | None = field(default=None, metadata=INTERNAL)
    unread: str = field(default="", metadata=INTERNAL)
    uses_library: bool = field(default=False, metadata=INTERNAL)

    @property
    def script_in_place(self) -> bool:
        """Whether the job is a script that is used where it is, and not a typed command."""
        is_script = self.script is not None or any(word.startswith("{code}/") for word in self.command)
        return self.in_place and is_script

    def parameter_for(self, role: Role) -> str:
        """Return the name of the parameter for a role, whether or not the job has one."""
        return self.training.names.get(role, role) if self.training else role

    def __post_init__(self) -> None:
        if (self.script is None) == (not self.command):
            raise ValueError("give either 'script' (a Python file) or 'command' (a list: program and arguments)")
        if self.packages and not self.script:
            raise ValueError("'packages' are those of the Python that runs 'script', but the job has a 'command'")
        if self.script and (Path(self.script).is_absolute() or ".." in Path(self.script).parts):
            raise ValueError("'script' must be a path inside the job's folder")
        if self.strategies and "strategy" in self.parameters:
            raise ValueError("'strategies' gives the program the option --strategy, so no parameter may have that name")
        astray = [
            name for name in (self.training.names if self.training else {}).values() if name not in self.parameters
        ]
        if astray:
            raise ValueError(f"training.names contains {', '.join(astray)}, but the job has no such parameter")
        faults = [fault for name, recipe in self.recipes.items() for fault in _recipe_faults(self, name, recipe)]
        faults += [*_formula_faults(self), *_parameter_faults(self), *_data_faults(self)]
        if faults:
            raise KeyFaults(faults)

    def data_for(self, settings: Iterable[tuple[str, str]]) -> DataSet | None:
        """Return the data set that the program reads with these settings, or None if it reads none.

        The parameter ``dataset`` names one of ``other_data`` in place of ``data``.
        """
        if not self.other_data:
            return self.data
        name = dict(settings).get(DATASET, str(self.parameters[DATASET].default))
        return next((one for one in self.other_data if one.name == name), self.data)

    def sized(self, settings: Iterable[tuple[str, str]] = ()) -> "Job":
        """Return the job with the figures of its training for these settings, as a command line spells them.

        A setting that cannot be read, or a formula that has no value for it, leaves what the job file says.
        """
        if self.training is None or not self.training.formulas:
            return self
        from hpclaunch.config.formulas import evaluate  # takes a millisecond, and few jobs have formulas

        values: dict[str, object] = {name: row.default for name, row in self.parameters.items()}
        for name, text in settings:
            with contextlib.suppress(KeyError, ValueError):  # resolve reports it, with all other faults
                values[name] = self.parameters[name].parse(text)
        try:
            found: dict[Any, float] = {name: evaluate(text, values) for name, text in self.training.formulas.items()}
        except ValueError:
            return self
        whole: dict[str, Any] = {name: max(1, int(found.pop(name))) for name in _WHOLE if name in found}
        return replace(self, training=replace(self.training, figures={**self.training.figures, **found}, **whole))

    def with_rate_of(self, recipe: str, *, rate_is_typed: bool = False) -> "Job":
        """Return the job with a recipe's learning rate and what it is for; unchanged if it gives no rate.

        ``rate_is_typed``: a person typed a rate, of the same value or not, and that of the recipe is compared with it.
        A recipe that also says how ranks scale its rate gives the rate of the job's own base batch.
        """
        found, rate = self.recipes.get(recipe), self.parameter_for("learning_rate")
        if found is None or self.training is None or rate not in found.settings:
            return self
        value = self.parameters[rate].with_default(found.settings[rate]).default
        optimizer = found.settings.get(self.parameter_for("optimizer"))
        training = replace(
            self.training,
            recipe_rate=float(value) if isinstance(value, int | float) else None,
            recipe_optimizer=None if optimizer is None else str(optimizer),
            rate_is_typed=rate_is_typed,
        )
        if self.parameter_for("scale_learning_rate") in found.settings:
            return replace(self, training=training)
        batch = found.global_batch
        return replace(self, training=replace(training, base_batch=batch, rate_is_alone=batch is None))

    def with_defaults(self, settings: Iterable[tuple[str, str]]) -> "Job":
        """Return the job with other defaults, by parameter name, as a command line spells them. Raises ValueError."""
        rows = self.parameters
        changed = {name: replace(rows[name], default=rows[name].parse(text)) for name, text in settings}
        made = copy(self)  # replace would check that the defaults suit each other, but they suit a request's settings
        object.__setattr__(made, "parameters", {**rows, **changed})
        return made

    def with_formats(self, settings: Iterable[tuple[str, str]]) -> "Job":
        """Return the job with number formats that a plan sets, as its defaults."""
        formats = tuple(settings)
        made = self.with_defaults(formats)
        object.__setattr__(made, "formats", formats)
        return made


DATASET = "dataset"
"""The parameter that names one of several data sets."""
_WHOLE = ("samples", "sample_bytes")
"""The formulas of whole numbers; all others give figures."""


def _formula_faults(job: Job) -> Iterator[KeyFault]:
    """Yield the formulas that have no value for the defaults of the job's parameters."""
    values = {name: row.default for name, row in job.parameters.items()}
    for name, text in job.training.formulas.items() if job.training else ():
        from hpclaunch.config.formulas import evaluate

        try:
            evaluate(text, values)
        except ValueError as error:
            yield KeyFault(keys=("training", "formulas", name), what=str(error))


def _recipe_faults(job: Job, name: str, recipe: NamedRecipe) -> list[KeyFault]:
    """Return why a named recipe cannot be used with the job's parameters."""
    keys = ("recipes", name)
    if name in (PLAN, AS_WRITTEN):
        what = f"every job has a recipe of the name {name!r} already"
        return [KeyFault(keys=keys, what=what, allowed="another name")]
    faults = []
    for key, value in recipe.settings.items():
        where = (*keys, "settings", key)
        try:
            job.parameters[key].with_default(value)
        except KeyError:
            what = f"the job has no such parameter{did_you_mean(key, job.parameters)}"
            faults.append(KeyFault(keys=where, what=what, allowed=", ".join(job.parameters) or "none"))
        except ValueError as error:
            faults.append(KeyFault(keys=where, what=str(error)))
    return faults


def _parameter_faults(job: Job) -> Iterator[KeyFault]:
    """Yield the faults of parameters among each other, and of the names that ``data.make`` has for some."""
    defaults = {name: row.default for name, row in job.parameters.items()}
    yield from (KeyFault(keys=("parameters", name), what=what) for name, what in misfits(job.parameters, defaults))
    for name in job.data.make.parameters if job.data and job.data.make else ():
        if name not in job.parameters:
            what = f"the job has no such parameter{did_you_mean(name, job.parameters)}"
            yield KeyFault(keys=("data", "make", "parameters", name), what=what)


def _data_faults(job: Job) -> Iterator[KeyFault]:
    """Yield why the parameter ``dataset`` cannot choose among the job's data sets."""
    if not job.other_data:
        return
    names = [one.name for one in (*([job.data] if job.data else []), *job.other_data)]
    choices = job.parameters[DATASET].choices if DATASET in job.parameters else None
    if job.data is None or len(set(names)) < len(names):
        yield KeyFault(keys=("other_data",), what="it needs 'data', and every data set a name of its own")
    elif sorted(map(str, choices or ())) != sorted(names):
        what = f"the job needs a parameter 'dataset' with the choices {', '.join(names)}"
        yield KeyFault(keys=("other_data",), what=what)
    if any(one.make for one in job.other_data):
        yield KeyFault(keys=("other_data",), what="only 'data' can be made by a program", allowed="fetch")


_LARGEST_SCRIPT = 4 * 2**20
ReadScript = Callable[[Path], bytes]
"""Returns the content of a script, whose imports are looked for. Raises OSError or ValueError."""


def read_script(path: Path) -> bytes:
    """Return the content of a script. Raises OSError or ValueError."""
    return read_bytes(path, _LARGEST_SCRIPT)


def load_job(catalog: Catalog, target: str, cwd: Path, content_of: ReadScript = read_script) -> Job:
    """Return the job of that name, or the job of a script if ``target`` is a path. Raises NotFound or InvalidFile."""
    if looks_like_path(target):
        return script_job(cwd / target, content_of)
    found = catalog.find(JOB, target)
    catalog.require(found.origin, found.path)
    if found.origin != "bundled":
        for file in json_files_of(found.path):
            catalog.require(found.origin, file)
    return job_of_file(found.path, target, content_of, catalog.kept)


def job_of_file(path: Path, name: str, content_of: ReadScript = read_script, kept: Path | None = None) -> Job:
    """Return the job of a job file, which stands in the job's folder; ``kept`` as in a catalog. Raises InvalidFile."""
    job = read(path, Job, kept, name=name, folder=str(path.parent)).sized()
    if not job.script:
        return job
    return replace(job, uses_library=_uses_library(_imports(path.parent / job.script, content_of)))


def looks_like_path(target: str) -> bool:
    """Tell whether a target is a script (``./train.py``, ``dir/run``, ``train.py``) or a job's name."""
    return "/" in target or target.endswith((".py", ".sh"))


def script_job(path: Path, content_of: ReadScript = read_script) -> Job:
    """Return a job that runs one script, with Python for .py, bash for .sh, else directly; it need not exist yet."""
    program: dict[str, Any] = {"script": path.name} if path.suffix == ".py" else {"command": _command_for(path)}
    folder, name, imports = str(path.parent), _name_for(path.stem, "script"), _imports(path, content_of)
    program |= {"imports": imports, "uses_library": _uses_library(imports)}
    return Job(name=name, folder=folder, summary=f"script {path}", source_only=True, **program)


def command_job(program: str, folder: Path) -> Job:
    """Return a job that runs a program as it was typed, with nothing copied; ``folder`` is the one with the program."""
    name = _name_for(Path(program).name, "command")
    summary = f"command {program}"
    return Job(name=name, folder=str(folder), summary=summary, command=(program,), source_only=True, in_place=True)


def _name_for(text: str, otherwise: str) -> str:
    return (re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or otherwise)[:64]


_IMPORT = r"(?m)^(?:import[ \t]+([\w., \t]+)|from[ \t]+(\w+))"
TRAINING_LIBRARY = "hpclaunch.training"
"""The name for the import of the ranks' library as a program of TensorFlow does it."""
_IMPORT_OF_LIBRARY = r"(?m)^from[ \t]+hpclaunch[ \t]+import[ \t]+training\b"


def _imports(path: Path, content_of: ReadScript) -> tuple[str, ...]:
    """Return the modules that a Python script imports in lines without indentation; none if it cannot be read."""
    if path.suffix != ".py":
        return ()
    try:
        text = content_of(path).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ()
    words = [word for several, one in re.findall(_IMPORT, text) for word in (several or one).split(",")]
    names = [word.split()[0].split(".")[0] for word in words if word.split()]
    return tuple(dict.fromkeys([*names, *([TRAINING_LIBRARY] if re.search(_IMPORT_OF_LIBRARY, text) else [])]))


def _uses_library(imports: tuple[str, ...]) -> bool:
    return "hpclaunch" in imports


def _command_for(path: Path) -> tuple[str, ...]:
    return ("bash", "{code}/" + path.name) if path.suffix == ".sh" else ("{code}/" + path.name,)
