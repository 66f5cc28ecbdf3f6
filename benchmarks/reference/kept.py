"""The measured values that the tables of results keep: those that pages, pictures, `--list` and derived values read.

All else that a run measured is in its raw result (store.py). A value that something new reads is added here, and the
study's runs are made again. A study that is not named keeps everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_AT_THE_TARGET = ("reached", "diverged", "most_samples", "samples", "steps", "seconds", "noise_scale")
_OF_THE_LAW = ("critical_batch", "fewest_samples", "fewest_steps", "predicted_critical_batch", "noise_scale")
_OF_UNIVERSES = ("omega_m", "sigma_8", "n_s", "h_0")

KEPT: Mapping[str, Sequence[str]] = {
    "critical_batch": (
        "batch",
        "learning_rate",
        *_AT_THE_TARGET,
        "predicted_critical_batch",
        "images_per_s",
        "curve.samples",
        "curve.loss",
        "curve.noise_scale",
    ),
    "critical_batch_law": (
        *(f"{name}{end}" for name in _OF_THE_LAW for end in ("", "_low", "_high")),
        "misfit",
    ),
    "critical_batch_rates": ("samples",),
    "guidelines_updates": ("accuracy", "test_accuracy", "images_per_s", "curve.accuracy"),
    "hours_to_minutes": (
        "seconds",
        "epoch_s",
        "images_per_s",
        "loss",
        "accuracy",
        "val_loss",
        "val_accuracy",
        "test_accuracy",
        "learning_rate",
        "global_batch_size",
        "steps_per_epoch",
        "training_images",
        "peak_pss_mb",
        "mean_cores",
        "saved_model_accuracy",
        "keras_file_accuracy",
        "curves.loss",
        "curves.val_loss",
        "use.at_s",
        "use.pss_mb",
        "use.cores",
        "layers",
    ),
    "notebook3": (
        "images_per_s",
        "loss",
        "accuracy",
        "test_accuracy",
        "steps_per_epoch",
        "peak_pss_mb",
        "mean_cores",
        "curves.accuracy",
    ),
    "parallel_training": (
        "seconds",
        "diverged",
        "test_accuracy",
        "training_accuracy",
        "training_loss",
        "all_reduce_s",
        "step_s",
        "communication_share",
        "loss",
    ),
    "peers": ("version", "load_average", "cannot", "dry_cpu_s", "cpu_s", "wall_s", "verdicts"),
    "sharpness": (
        "batch",
        "epoch",
        "training_loss",
        "training_accuracy",
        "test_accuracy",
        "generalization_gap",
        "sharpness",
        "eigenvalues",
    ),
    "universes": (
        "seconds",
        "volumes",
        *(f"{name}_{what}" for name in _OF_UNIVERSES for what in ("error", "always_the_mean", "ratio")),
        "answers",
    ),
}
"""Study → names of measured values, in the order of the columns; a name also stands for all that is nested in it."""
