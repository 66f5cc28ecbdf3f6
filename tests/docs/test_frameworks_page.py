"""Each "yes" of the table of frameworks is a test that exists, with the real framework, in every run of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
NAMES = (ROOT / "tests" / "names.txt").read_text(encoding="utf-8")
HOROVOD, STRATEGY, PYTORCH, JAX = "TensorFlow, Horovod", "TensorFlow, a strategy", "PyTorch", "JAX"
CPU_REPLICAS = "horovod/test_strategies.py::test_mirrored_without_horovod_has_the_losses_of_one_process"
BATTERY = "frameworks/test_battery.py::test_every_optimizer_and_decay_trains_as_by_hand_and_resumes_to_the_last_bit"
KILLED = "frameworks/test_continuing.py::test_killed_and_resumed_is_undisturbed_to_the_last_bit"
OTHER_RANKS = "frameworks/test_other_ranks.py::test_the_losses_of_an_epoch_are_those_of_all_samples"
ACCUMULATED = "frameworks/test_equal.py::test_accumulated_batches_are_one_large_batch"
AVERAGE = "frameworks/test_weight_average.py::test_the_average_is_validated_evaluated_exported_and_resumed"
BEST = "frameworks/test_equal.py::test_two_ranks_validate_and_find_the_best_epoch_as_one_process_does"
DRIFT = "frameworks/test_drift.py::test_every_way_is_found_in_the_first_epoch"
TECHNIQUES = "horovod/test_techniques.py::test_all_ranks_hold_the_same_weights"
LOSS_SCALE = "horovod/test_strategies.py::test_the_loss_scale_of_float16_acts_and_steps_that_overflow_are_skipped"
TESTS: dict[str, dict[str, str]] = {
    "several ranks train what one process does": {
        HOROVOD: "horovod/test_own_optimizer.py::test_two_ranks_are_like_one_process_and_continue_its_run",
        STRATEGY: CPU_REPLICAS,
        PYTORCH: BATTERY,
        JAX: BATTERY,
    },
    "ranks on several hosts under Slurm": {
        HOROVOD: "slurm/test_cifar.py::test_cifar_on_four_hosts",
        STRATEGY: "slurm/test_strategies.py::test_several_hosts_without_horovod_have_the_losses_of_one_process",
        PYTORCH: "slurm/test_frameworks.py::test_a_bundled_job_trains_on_four_hosts",
    },
    "a run that was killed goes on as if undisturbed": {
        HOROVOD: "horovod/test_resuming.py::"
        "test_stopped_killed_and_damaged_it_ends_with_the_weights_of_an_undisturbed_run",
        PYTORCH: KILLED,
        JAX: KILLED,
    },
    "a run goes on with another number of ranks": {
        HOROVOD: "horovod/test_resuming.py::"
        "test_on_more_ranks_it_goes_on_at_the_same_part_of_the_epoch_and_says_what_follows",
        PYTORCH: OTHER_RANKS,
        JAX: OTHER_RANKS,
    },
    "every optimizer of the settings (LARS, LARC, LAMB, AdamW, Muon)": {
        HOROVOD: "frameworks/test_optimizers.py::test_ten_steps_are_those_of_the_tensorflow_side",
        PYTORCH: "frameworks/test_optimizers.py::test_ten_steps_are_those_of_the_tensorflow_side",
    },
    "warm-up and every decay of the learning rate": {
        HOROVOD: "unit/training/optimization/test_learning_rate.py::test_decay",
        PYTORCH: BATTERY,
        JAX: BATTERY,
    },
    "gradient noise scale": {
        HOROVOD: "horovod/test_noise_scale.py::test_several_ranks",
        PYTORCH: "frameworks/test_noise_scale.py::test_the_noise_scale_of_two_ranks_is_that_of_their_gradients",
    },
    "accumulation of batches": {HOROVOD: TECHNIQUES, PYTORCH: ACCUMULATED, JAX: ACCUMULATED},
    "average of the weights (EMA)": {
        HOROVOD: "horovod/test_weight_average.py::test_the_average_is_validated_evaluated_exported_and_resumed",
        PYTORCH: AVERAGE,
        JAX: AVERAGE,
    },
    "16-bit arithmetic by a setting": {
        HOROVOD: TECHNIQUES,
        STRATEGY: LOSS_SCALE,
        PYTORCH: "frameworks/test_computing.py::"
        "test_a_step_is_computed_as_the_settings_say_and_resumed_to_the_last_bit",
    },
    "synchronized batch normalization by a setting": {HOROVOD: TECHNIQUES},
    "ranks share the optimizer's state": {
        HOROVOD: "horovod/test_sharding.py::test_every_optimizer_follows_one_process",
        PYTORCH: "frameworks/test_sharding.py::test_ranks_that_share_the_state_alone_follow_one_process",
    },
    "ranks share weights and gradients, too": {
        PYTORCH: "frameworks/test_sharding.py::"
        "test_ranks_that_share_weights_follow_one_process_and_go_on_in_another_layout"
    },
    "ranks share the layers of a model": {
        HOROVOD: "horovod/test_tensor_parallel.py::test_shared_layers_follow_the_whole_model"
    },
    "stages of a model on different ranks": {
        HOROVOD: "horovod/test_pipeline.py::test_fit_and_evaluate_are_those_of_the_whole_model"
    },
    "validation, and the best epoch": {
        HOROVOD: "horovod/test_monitoring.py::test_training_ends_early_with_the_weights_of_the_best_epoch",
        PYTORCH: BEST,
        JAX: BEST,
    },
    "ranks prove that they hold one model": {
        HOROVOD: "horovod/test_drift.py::test_every_way_is_found_in_the_first_epoch",
        PYTORCH: DRIFT,
        JAX: DRIFT,
    },
    "a rank that hangs ends the run": {
        HOROVOD: "horovod/test_hanging.py::test_a_rank_that_hangs_ends_the_run",
        PYTORCH: "frameworks/test_jobs.py::test_a_rank_of_pytorch_that_hangs_ends_the_run",
    },
    "files of the trained model that others can read": {
        HOROVOD: "horovod/test_exports.py::test_the_files_of_a_trained_model_give_its_test_accuracy_without_hpclaunch",
        PYTORCH: "frameworks/test_exports.py::"
        "test_the_exported_weights_are_those_of_the_best_epoch_that_were_evaluated",
        JAX: "frameworks/test_exports.py::test_the_arrays_of_jax_have_the_names_of_their_places",
    },
}


def table() -> dict[str, dict[str, str]]:
    """The cells of the page's table by row and column."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    begin = next(number for number, row in enumerate(rows) if row[0] == "what")
    heads = rows[begin][1:]
    return {row[0]: dict(zip(heads, row[1:], strict=True)) for row in rows[begin + 2 :]}


def test_a_yes_stands_where_a_test_is_named_and_nowhere_else() -> None:
    assert {row: {head for head, cell in cells.items() if cell == "yes"} for row, cells in table().items()} == {
        row: set(named) for row, named in TESTS.items()
    }
    assert {cell for cells in table().values() for cell in cells.values()} <= {"yes", "no", ""}


@pytest.mark.parametrize("test", sorted({test for named in TESTS.values() for test in named.values()}))
def test_each_named_test_exists_in_every_run(test: str) -> None:
    file, _, name = test.partition("::")
    found = re.search(rf"^  tests/{re.escape(file)}\n((?:    .*\n)+)", NAMES, flags=re.MULTILINE)
    assert found, f"no tests in {file}"
    assert name in [line.strip() for line in found[1].splitlines()]  # "(make long)" follows one of the long tier
