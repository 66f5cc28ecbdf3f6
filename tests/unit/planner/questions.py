"""Questions for the planner: bundled and small sites, jobs with known models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpclaunch.config.job import Job, Training
from hpclaunch.config.parameters import Parameter
from hpclaunch.config.site import Site
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.job.workload import stored_figures
from hpclaunch.planner.values import Forecast
from tests.builders import a_case, a_context, a_job, bundled_site

RESNET_50: dict[str, float] = {
    "parameters": 25.58e6,
    "flops_per_sample": 7.73e9,
    "saved_bytes_per_sample": 79.8 * 2**20,
    "largest_layer": 2.36e6,
}
PARAMETERS: dict[str, Parameter] = {
    "epochs": Parameter(default=90),
    "batch_size_per_rank": Parameter(default=256),
    "accumulation": Parameter(default=1),
    "learning_rate": Parameter(default=0.1),
    "scale_learning_rate": Parameter(default="none", choices=("none", "linear", "sqrt", "power23", "adascale")),
    "warmup_epochs": Parameter(default=0.0),
    "decay": Parameter(default="constant"),
    "optimizer": Parameter(default="sgd"),
    "momentum": Parameter(default=0.9),
    "precision": Parameter(default="float32"),
}


def a_trained_job(figures: dict[str, float] | None = None, **training: Any) -> Job:
    """ImageNet and ResNet-50, unless said otherwise; ``figures={}``: nobody knows the model."""
    known = RESNET_50 if figures is None else {**RESNET_50, **figures} if figures else {}
    facts = {"samples": 1_281_167, "sample_bytes": 110_000, "task": "imagenet", **training}
    return a_job(parameters=PARAMETERS, training=Training(**{"figures": known, **facts}))


SPLIT: dict[str, Parameter] = {
    "tensor_parallel": Parameter(default=1, at_least=1),
    "pipeline_stages": Parameter(default=1, at_least=1),
}
SAVING: dict[str, Parameter] = {"recompute": Parameter(default=False), "shard_optimizer": Parameter(default=False)}


def with_parameters(job: Job, *further: dict[str, Parameter]) -> Job:
    """The job with further parameters, such as those of a model whose layers are split."""
    return replace(job, parameters={**job.parameters, **{name: row for rows in further for name, row in rows.items()}})


def ask(job: Job | None = None, site: str | Site = "perlmutter", **typed: Any) -> Question:
    """The question for what was typed; ``objective``, ``evidence``, ``queue``, ``global_batch`` and ``figures`` too."""
    job = job or a_trained_job()
    own = {key: typed.pop(key) for key in ("objective", "evidence", "queue", "global_batch", "figures") if key in typed}
    return Question(
        case=a_case(
            bundled_site(site) if isinstance(site, str) else site,
            job,
            context=a_context(environment={"SCRATCH": "/scratch/ada"}),
            **{"target": job.name, **typed},
        ),
        **{"figures": stored_figures(job), **own},
    )


def plan_of(job: Job | None = None, site: str | Site = "perlmutter", **typed: Any) -> Forecast:
    return forecast(ask(job, site, **typed))
