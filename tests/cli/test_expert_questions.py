"""What an expert asks of ``plan``, as it is typed; the questions that need no terminal: test_twelve_questions."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk

LLAMA_7B = ("layers=32", "hidden=4096", "heads=32", "vocabulary=32000", "corpus_tokens=1000000000000")
NEW_SITE = """
title: nodes of a new accelerator
status: production
scheduler: local
defaults: {{node_type: gpu}}
node_types:
  gpu: {{title: x, cores_per_node: 64, gpus_per_node: 4, gpu_model: {model}, gpu_memory_gb: {memory}}}
launchers: {{default: torchrun, options: {{torchrun: {{}}}}}}
"""
MIXTURE = """
summary: eight experts
command: [python, train.py]
framework: pytorch
parameters:
  batch_size_per_rank: {{default: 1}}
training:
  samples: 250000000
  figures:
    parameters: 46.7e9
    flops_per_sample: 5.3e13
    saved_bytes_per_sample: 3e10
    decoder_layers: 32
    decoder_hidden: 4096
    decoder_heads: 32
    decoder_key_heads: 8
    decoder_context: 4096
    decoder_vocabulary: 32000
    decoder_dense: {dense}
    decoder_experts: 8
    decoder_active_experts: 2
"""


def settings(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def test_before_a_script_was_measured_exactly_what_to_type_is_said(desk: Desk) -> None:
    """Question 9; that this command works, and what its runs give: test_own_program."""
    desk.write("train.py", "import torch\n")
    done = desk.type("plan", "./train.py", "--site", "perlmutter")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["nodes", "batch", "rate", "time", "cost"]
    assert all("not known" in line for line in lines[:5])
    assert (
        lines[lines.index("to measure it first, in short runs:") + 1]
        == "hpclaunch profile ./train.py --site perlmutter"
    )


def test_a_long_context_that_does_not_fit_is_divided(desk: Desk) -> None:
    """Question 10: not by FSDP alone."""
    done = desk.type("plan", "transformer", "--site", "perlmutter", *settings(*LLAMA_7B, "context=32768"))
    assert done.code == 0, done.err
    words = " ".join(done.out.split())
    layout = words.partition("layout: ")[2].partition(";")[0]
    assert any(name in layout for name in ("context ", "tensor ", "activations recomputed"))
    used, room = words.partition("memory of a GPU: ")[2].split()[0:3:2]
    assert float(used) <= float(room)
    assert "with flash attention" in words
    assert "> FSDP (ZeRO 3)" not in words


@pytest.mark.parametrize("job", ["resnet50", "transformer", "ddp"])
@pytest.mark.parametrize("name", ["fp8", "float8_e4m3fn", "nvfp4"])
def test_eight_bits_are_answered_without_a_guess_at_what_was_meant(desk: Desk, job: str, name: str) -> None:
    """Question 11."""
    done = desk.type("plan", job, "--site", "perlmutter", "--set", f"precision={name}")
    assert done.code == 1
    assert "did you mean" not in done.err
    assert "no bundled job computes in 8 bits or fewer" in done.err
    assert "Transformer Engine or torchao" in done.err


@pytest.mark.parametrize(
    ("model", "memory", "peak"), [("NVIDIA B200", 180, "2250"), ("AMD Instinct MI300A", 128, "980.6")]
)
def test_a_new_accelerator_is_answered_as_a_guess(desk: Desk, model: str, memory: int, peak: str) -> None:
    """Question 11."""
    desk.write("site_configs/new.yaml", NEW_SITE.format(model=model, memory=memory))
    done = desk.type("plan", "transformer", "--site", "new", *settings(*LLAMA_7B, "context=2048"), "--nodes", "1")
    words = " ".join(done.out.split())
    device = model.rsplit(maxsplit=1)[-1]
    assert f"of {peak} TFLOP/s, the dense peak of {device} in 16 bits" in words
    assert f"speed of {device}: a guess within a factor of" in words


def test_experts_are_planned_from_the_figures_of_a_job_file(desk: Desk) -> None:
    """Question 11: 46.7 billion parameters, 12.9 of which a token uses."""
    desk.write("jobs/mixture/job.yaml", MIXTURE.format(dense=3 * 4096 * 14336))
    desk.write("jobs/mixture/train.py", "import torch\n")
    done = desk.type("plan", "mixture", "--site", "perlmutter")
    assert done.code == 0, done.err
    assert "experts on 4 ranks" in " ".join(done.out.split())
