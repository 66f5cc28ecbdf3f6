"""Ranks of PyTorch and JAX that a program lets drift apart are found in the first epoch; DDP's options and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.frameworks.test_results import found_by, started
from tests.horovod.test_drift import ALL, BEGUN, check

pytestmark = pytest.mark.timeout(900)
ITSELF, ALONE = "m(x), in place of loop.model(x)", "by what one rank has alone"
UPDATE, MADE = "the update is not the same function on all ranks", "before the first step"
TORCH = {
    "model_itself": (BEGUN, ITSELF),
    "model_itself_in_own_step": (BEGUN, ITSELF),
    "never_synchronized": (BEGUN, "every call of loop.model is inside no_sync"),
    "rate_of_the_rank": (BEGUN, "other learning rates on each rank"),
    "layer_after_the_loop": (BEGUN, "it is no part of the model that training.loop was given"),
    "moments_of_the_rank": (BEGUN, "the optimizer's exp_avg of 0.weight", ALONE),
    "sign_of_zero": (BEGUN, "the parameter 2.bias", "in the sign of zeros"),
    "other_width": ("when it was made", "float32 [4, 3] on rank 0, but float32 [5, 3] on rank 1"),
}
MORE_TORCH = {
    "model_beside_the_wrapper": (BEGUN, "m(x), to those of loop.model(x)"),
    "noise_in_the_weights": (BEGUN, ALONE),
    "clipped_on_one_rank": (BEGUN, ALONE),
    "exchanged_weights": (BEGUN, ALONE),
    "left_out_step": (BEGUN, "leaves out a step on some ranks"),
    "weights_of_another_seed": (BEGUN, ALONE),
    "gradient_of_the_rank": (BEGUN, ALONE),
    "parameter_of_the_optimizer": (BEGUN, "it is no part of the model"),
}
JAX = {
    "weights_of_another_seed": (MADE, "the state's ['weights']", "Make it from the same seed"),
    "rank_in_the_update": (BEGUN, UPDATE),
    "each_rank_alone": (BEGUN, "the update computes on this rank alone"),
    "sign_of_zero": (BEGUN, "in the sign of zeros"),
    "without_psum": (BEGUN, "without a psum or pmean"),
}
MORE_JAX = {
    "other_size": (MADE, "float32 [2] on rank 0, but float32 [3] on rank 1"),
    "another_array": (MADE, "different arrays"),
    "noise_of_numpy": (BEGUN, UPDATE),
    "nudged_on_the_host": (BEGUN, "by up to"),
    "exchanged_weights": (BEGUN, "by up to"),
    "state_before_the_step": (BEGUN, "the state's ['moment']"),
}


@pytest.mark.parametrize(
    ("job", "ways", "more"), [("ddp", TORCH, MORE_TORCH), ("jax", JAX, MORE_JAX)], ids=["torch", "jax"]
)
def test_every_way_is_found_in_the_first_epoch(
    job: str, ways: dict[str, tuple[str, ...]], more: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    ways = {**ways, **more} if ALL else ways
    program = "drifting_torch.py" if job == "ddp" else "drifting_jax.py"
    codes, text = started(job, program, tmp_path, "--ways=" + ",".join(ways)).ended()
    assert codes == [0, 0], text
    for rank in range(2):
        check(json.loads((tmp_path / f"drift-{rank}.json").read_text()), ways)


def test_a_model_that_is_called_itself_ends_the_run_with_one_error(tmp_path: Path) -> None:
    run = started("ddp", "drifting_torch.py", tmp_path, "--ways=model_itself", "--caught=false")
    codes, text = run.ended()
    assert codes == [1, 1] and text.count(ITSELF) == 1 and "Traceback" not in text, text
    assert not run.events("epoch") and not list((tmp_path / "checkpoints").glob("*"))


@pytest.mark.parametrize("case", ["in_step", "in_own_step"])
def test_parameters_without_a_gradient_end_the_run_with_the_option_that_helps(case: str, tmp_path: Path) -> None:
    extra = {"HPCLAUNCH_EXIT_FILE": str(tmp_path / "exit-code")}
    codes, text = started("ddp", "wrapped_torch.py", tmp_path, f"--case={case}", **extra).ended()
    assert codes == [1, 1] and "Traceback" not in text and text.count("error: ") == 1, text
    assert "the parameters spare.weight, spare.bias" in text and "find_unused_parameters=True" in text, text


@pytest.mark.parametrize("size", [1, 2])
def test_the_options_of_the_wrapper_and_no_sync_train_the_same_model(size: int, tmp_path: Path) -> None:
    found = found_by(started("ddp", "wrapped_torch.py", tmp_path, "--case=options", size=size), size)
    assert found["usual"] == found["view"] == found["unused"] == found["static"]
    assert found["accumulated"] == pytest.approx(found["whole"], rel=1e-5)
