"""The settings of a training script with their types; tools/generated.py writes it (parameters.json)."""

from __future__ import annotations

import argparse


class SettingTypes(argparse.Namespace):
    """Every setting by its name; the meaning, bounds and default are in training/parameters.json."""

    epochs: int
    batch_size_per_rank: int
    accumulation: int
    seed: int
    noise_scale: bool
    learning_rate: float
    scale_learning_rate: str
    warmup_epochs: float
    warmup_steps: int
    decay: str
    decay_epochs: tuple[float, ...]
    decay_factor: float
    decay_power: float
    optimizer: str
    momentum: float
    muon_momentum: float
    muon_weights: str
    muon_exclude: str
    weight_decay: float
    exclude_vectors: bool
    momentum_correction: bool
    shard_optimizer: bool
    ema_decay: float
    tensor_parallel: int
    pipeline_stages: int
    recompute: bool
    batch_norm: str
    ghost_batch_size: int
    precision: str
    compression: str
    adasum: bool
    gradient_lag: bool
    update_groups: int
    group_steps: int
    xla: bool
    steps_per_execution: int
    input: str
    stage_to: str
    synthetic: bool
    synthetic_samples: int
    train_samples: int
    record_shards: bool
    reshuffle: str
    validation_every: int
    validation_part: float
    validate_on: str
    patience: int
    monitor: str
    monitor_mode: str
    min_delta: float
    keep_best: bool
    restore_best: bool
    top_k: int
    confusion_matrix: bool
    tensorboard: bool
    profile_first: int
    profile_steps: int
    profile_rank: int
    flip_horizontal: bool
    flip_vertical: bool
    crop: int
    scale_images: float
    shear: float
    lens_distortion: float
    brightness: float
    contrast: float
    mixup: float
    cutmix: float
    saturation: float
    checkpoint_minutes: float
    checkpoint_steps: int
    keep_checkpoints: int
    export_model: bool
    mlflow: bool
    stall_minutes: float
    resume: bool
    compile: bool
    channels_last: bool
    shard_weights: bool
