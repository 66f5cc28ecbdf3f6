"""A job as the planner sees it: data set, batch, epochs, rates and model, each with its origin; it opens no file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpclaunch.config.job import Figure, Job, Role, Training
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.guidelines.efficiency import TASKS
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import SLOTS, Precision
from hpclaunch.guidelines.precision import HALVES
from hpclaunch.guidelines.rates import Rule, rule_named
from hpclaunch.guidelines.reasoning import Origin

if TYPE_CHECKING:
    from hpclaunch.guidelines.decoders import Decoder
    from hpclaunch.guidelines.hardware import Arithmetic

OF_A_SPLIT: tuple[Figure, ...] = (
    *("replicated_parameters", "first_stage_parameters", "last_stage_parameters"),
    *("repeated_bytes_per_sample", "kept_bytes_per_sample", "layer_bytes_per_sample"),
    *("tensor_collectives", "tensor_bytes_per_sample"),
)
"""Figures of a job that have the same name in ``ModelFigures``."""
DECODER = "decoder_"
"""The beginning of the names of a decoder's figures."""
ONLY_NAMED: tuple[Role, ...] = ("steps",)
"""Roles that no parameter has by its own name: many programs count other steps than those of the whole training."""
ABOVE_ZERO: tuple[Role, ...] = ("epochs", "batch_size_per_rank", "accumulation", "learning_rate")
"""Roles whose value a plan needs to be above zero."""
RATE_OF = {"adamw": "adam", "momentum": "sgd", "larc": "sgd"}
"""Optimizer -> another one whose learning rates are of the same size."""
WRITTEN = {"momentum": "sgd"}
"""Optimizer of the memory model -> its name in a job."""


@record
class Workload:
    """A job as the planner sees it. Batches are in samples; None means not known. ``typed``: roles that were typed.

    ``steps``: the typed ones of the whole training; those of a job without epochs are its ``epochs`` at its base batch.
    ``tuned_rate``: the learning rate of the job file or of the named recipe, which ``base_batch`` is for; a person may
    have typed another ``learning_rate`` (``rate_is_typed``). ``rate_is_of_recipe``: it is that of the named recipe.
    ``rule``: the typed scaling rule of the learning rate; ``scaling``: that or the job's own, as the job names it.
    ``optimizer_known``: whether the optimizer is given and known; otherwise Adam is used. ``optimizers``: those that
    the job offers (None: any). ``global_batch``: a global batch size that the job divides among its ranks, instead of
    ``per_rank``. ``rate_is_alone``: nothing says which batch the learning rate is for. ``task``: the name in
    hpclaunch's tables. ``critical_batch``: the job's own, else that of the task.
    ``tensor_parallel``, ``pipeline_stages``, ``recompute`` and ``shard_optimizer``: how the job divides its model.
    ``gradient_lag`` and ``update_groups``: how ranks update it; never chosen by a plan.
    ``warmup_epochs`` and ``decay`` are the job's own schedule; 0 and empty text: none. ``tuned_for``: the optimizer of
    the recipe or of the job file, for which ``tuned_rate`` is. ``names`` and ``rows``: the parameter of every role that
    the job has.
    """

    samples: int
    sample_bytes: int | None
    critical_batch: float | None
    critical_origin: Origin
    base_batch: int | None
    rate_is_alone: bool
    per_rank: int | None
    global_batch: int | None
    accumulation: int
    epochs: float | None
    steps: int | None
    learning_rate: float | None
    tuned_rate: float | None
    rate_is_typed: bool
    rate_is_of_recipe: bool
    rule: Rule | None
    scaling: str
    decay_power: float | None
    task: str | None
    warmup_epochs: float
    decay: str
    momentum: float | None
    optimizer: str
    optimizer_known: bool
    tuned_for: str
    optimizers: tuple[str, ...] | None
    precision: Precision
    number_format: str
    tensor_parallel: int
    pipeline_stages: int
    recompute: bool
    shard_optimizer: bool
    gradient_lag: bool
    update_groups: int
    typed: frozenset[Role]
    names: dict[Role, str]
    rows: dict[Role, Parameter]

    @property
    def dataset_bytes(self) -> float | None:
        """Bytes of the whole data set, in the form in which it is read."""
        return None if self.sample_bytes is None else float(self.samples) * self.sample_bytes

    @property
    def gpus_per_replica(self) -> int:
        """The GPUs that hold one replica of the model, as the job's parameters say."""
        return self.tensor_parallel * self.pipeline_stages

    @property
    def needs_whole_models(self) -> bool:
        """Whether the job updates its model in a way that only ranks with a whole model have."""
        return self.gradient_lag or self.update_groups > 1

    @property
    def tuned_rate_fits(self) -> bool:
        """Whether the job's rate was tuned for an optimizer with rates of the same size."""
        return RATE_OF.get(self.tuned_for, self.tuned_for) == RATE_OF.get(self.optimizer, self.optimizer)

    @property
    def rate_fits(self) -> bool:
        """Whether the learning rate suits the optimizer: it was typed, or tuned for a similar one.

        A typed scaling rule makes no rate of another optimizer one of this.
        """
        return self.tuned_rate_fits or self.rate_is_typed

    def total_of(self, replicas: int) -> int | None:
        """Return the global batch of so many replicas with the job's batch per rank; None if that is not known."""
        return self.per_rank * self.accumulation * replicas if self.per_rank else None

    def arithmetic(self, has_tf32: bool) -> Arithmetic:
        """Return which arithmetic a GPU uses: TensorFlow computes float32 in TF32 if the GPU has it."""
        if self.precision == "mixed":
            return "mixed"
        return "tf32" if has_tf32 else "float32"


def stored_figures(job: Job) -> ModelFigures | None:
    """Return the model's figures from the job file, or None."""
    figures = job.training.figures if job.training else {}
    if not job.training or not figures:
        return None
    of_a_split: dict[str, Any] = {name: value for name, value in figures.items() if name in OF_A_SPLIT}
    return ModelFigures(
        parameters=int(figures["parameters"]),
        fixed_parameters=int(figures.get("fixed_parameters", 0)),
        flops_per_sample=figures["flops_per_sample"],
        saved_bytes_per_sample=figures["saved_bytes_per_sample"],
        largest_parameters=int(figures["largest_layer"]) if "largest_layer" in figures else None,
        operations=int(figures["operations"]) if "operations" in figures else None,
        **of_a_split,
        decoder=_decoder_of(figures),
        origin=f"stored with the job {job.name}",
    )


def _decoder_of(figures: Mapping[Figure, float]) -> Decoder | None:
    """Return the decoder that the figures describe; None if they describe none."""
    found = {name.removeprefix(DECODER): value for name, value in figures.items() if name.startswith(DECODER)}
    if not all(found.get(name) for name in ("layers", "hidden", "heads", "context", "vocabulary")):
        return None
    from hpclaunch.guidelines.decoders import Decoder

    dense = found.pop("dense", 0.0)
    whole = {name: int(value) for name, value in found.items()}
    return Decoder(**whole, dense=dense, parameters=figures["parameters"])


def workload_of(job: Job, training: Training, settings: tuple[tuple[str, str], ...]) -> Workload:
    """Return the job's workload with these typed ``settings``; one that cannot be read counts as not typed."""
    names = _names_of(job, training)
    values, typed = _values_of(job, names, dict(settings))
    critical, origin = _critical_batch(training)
    fewer = _positive_whole(values, "train_samples")
    samples = min(training.samples, fewer) if fewer else training.samples
    steps = _positive_whole(values, "steps")
    base = None if training.rate_is_alone else training.base_batch or _default_batch(job, names)
    as_written = _values_of(job, names, {})[0]
    if training.recipe_optimizer is not None:
        as_written["optimizer"] = training.recipe_optimizer
    rate = _positive_number(values, "learning_rate")
    of_recipe = training.recipe_rate is not None and not training.rate_is_typed
    scaling, number_format = str(values.get("scale_learning_rate", "none")), str(values.get("precision", "float32"))
    return Workload(
        samples=samples,
        sample_bytes=training.sample_bytes,
        critical_batch=critical,
        critical_origin=origin,
        base_batch=base,
        rate_is_alone=training.rate_is_alone,
        per_rank=_positive_whole(values, "batch_size_per_rank"),
        global_batch=_positive_whole(values, "global_batch_size"),
        accumulation=_positive_whole(values, "accumulation") or 1,
        epochs=_positive_number(values, "epochs") or _epochs_of_steps(steps, base, samples),
        steps=steps if "steps" in typed else None,
        learning_rate=rate,
        tuned_rate=training.recipe_rate or _positive_number(as_written, "learning_rate"),
        rate_is_typed="learning_rate" in typed and not of_recipe,
        rate_is_of_recipe=of_recipe,
        rule=rule_named(scaling) if "scale_learning_rate" in typed else None,
        scaling=scaling,
        decay_power=_positive_number(values, "decay_power"),
        task=training.task,
        warmup_epochs=_positive_number(values, "warmup_epochs") or 0.0,
        decay=_decay(values),
        momentum=_positive_number(values, "momentum"),
        optimizer=_optimizer(values),
        optimizer_known=str(values.get("optimizer", "")).lower() in SLOTS,
        tuned_for=_optimizer(as_written),
        optimizers=_optimizers(job, training.names.get("optimizer", "optimizer")),
        precision="mixed" if number_format in HALVES else "float32",
        number_format=number_format,
        tensor_parallel=_positive_whole(values, "tensor_parallel") or 1,
        pipeline_stages=_positive_whole(values, "pipeline_stages") or 1,
        recompute=values.get("recompute") is True,
        shard_optimizer=values.get("shard_optimizer") is True,
        gradient_lag=values.get("gradient_lag") is True,
        update_groups=_positive_whole(values, "update_groups") or 1,
        typed=frozenset(typed | _roles_decided_by(dict(settings))),
        names=names,
        rows={role: job.parameters[name] for role, name in names.items()},
    )


def _names_of(job: Job, training: Training) -> dict[Role, str]:
    """Return the job's parameter of each role that it has a parameter for."""
    roles: tuple[Role, ...] = Role.__args__  # type: ignore[attr-defined]
    names = {role: training.names.get(role, "" if role in ONLY_NAMED else role) for role in roles}
    return {role: name for role, name in names.items() if name in job.parameters}


def _values_of(job: Job, names: Mapping[Role, str], settings: Mapping[str, str]) -> tuple[dict[Role, Any], set[Role]]:
    """Return the value of each role, and the roles whose values were typed."""
    values: dict[Role, Any] = {role: job.parameters[name].default for role, name in names.items()}
    typed: set[Role] = set()
    for role, name in names.items():
        if name in settings:
            with contextlib.suppress(ValueError):  # the caller reports it, together with all other faults
                values[role] = job.parameters[name].parse(settings[name])
                typed.add(role)
    return values, typed


SETTLED_BY: dict[str, tuple[Role, ...]] = {
    "warmup_steps": ("warmup_epochs",),
    "decay_epochs": ("decay", "decay_power"),
    "decay_factor": ("decay", "decay_power"),
}
"""Parameters of the training techniques that decide a role as well: beside a typed one, a program refuses another."""
UNSET = ("", "0", "0.0")


def _roles_decided_by(typed: Mapping[str, str]) -> set[Role]:
    """Return the roles that typed parameters decide although they are not typed themselves.

    AdaScale includes a warm-up (Johnson et al. 2020), so that it decides this role.
    """
    roles = {role for name, decided in SETTLED_BY.items() if typed.get(name, "") not in UNSET for role in decided}
    return roles | ({"warmup_epochs"} if typed.get("scale_learning_rate") == "adascale" else set())


def divided_batch(job: Job, request: Request) -> int | None:
    """Return the global batch size that the job divides among its ranks, or None."""
    return workload_of(job, job.training, request.settings).global_batch if job.training else None


def nothing_typed(job: Job, training: Training, settings: tuple[tuple[str, str], ...]) -> list[Fault]:
    """Return a fault for every typed value that is not above zero although a plan needs it to be."""
    faults = []
    for role in ABOVE_ZERO:
        name = training.names.get(role, role)
        text = dict(settings).get(name)
        if text is None or name not in job.parameters:
            continue
        try:
            value = job.parameters[name].parse(text)
        except ValueError:
            continue  # resolve.program.command reports it
        if isinstance(value, int | float) and not value > 0:
            faults.append(Fault(where=f"--set {name}", what=f"{text} is not allowed", allowed="a number above 0"))
    return faults


def _positive_number(values: dict[Role, Any], role: Role) -> float | None:
    value = values.get(role)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _positive_whole(values: dict[Role, Any], role: Role) -> int | None:
    value = _positive_number(values, role)
    return int(value) if value else None


def _default_batch(job: Job, names: Mapping[Role, str]) -> int | None:
    """Return the default batch size per rank, whatever was typed."""
    if "batch_size_per_rank" not in names:
        return None
    value = job.parameters[names["batch_size_per_rank"]].default
    return value if type(value) is int and value > 0 else None


def _epochs_of_steps(steps: int | None, base: int | None, samples: int) -> float | None:
    """Return the epochs of a job that counts steps only, with the batch that they are for."""
    return steps * base / samples if steps and base else None


def _decay(values: dict[Role, Any]) -> str:
    decay = values.get("decay")
    return "" if decay in (None, "constant") else str(decay)


def _critical_batch(training: Training) -> tuple[float | None, Origin]:
    if training.critical_batch:
        return float(training.critical_batch), "given"
    return (TASKS[training.task], "default") if training.task else (None, "default")


def _optimizer(values: dict[Role, Any]) -> str:
    name = str(values.get("optimizer", "adam")).lower()
    if name == "sgd" and values.get("momentum"):
        return "momentum"
    return name if name in SLOTS else "adam"


def _optimizers(job: Job, name: str) -> tuple[str, ...] | None:
    if name not in job.parameters:
        return ()
    return tuple(map(str, job.parameters[name].choices)) or None
