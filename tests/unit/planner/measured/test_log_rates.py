"""Speeds from the lines of programs: each known format as its program prints it, and what is no evidence."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.planner.measured import program_rates
from hpclaunch.planner.measured.log_formats import FORMATS, formats_for
from hpclaunch.planner.measured.log_rates import LogRate, TooLittle, lines_of, rate_in

RECORDINGS = Path(__file__).parent / "recordings"
BAR = "━━━━━━━━━━━━━━━━━━━━"
PRINTED = {
    "torchtitan": (
        [
            f"[rank0]:[titan] 2026-01-01 10:00:00,000 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss:  8.1234  "
            f"\x1b[38;2;180;60;0mgrad_norm:  1.2000  \x1b[36mmemory:  1.20GiB(1.30%)  \x1b[34mtps: {12000:,}  "
            "\x1b[36mtflops: 12.30  \x1b[35mmfu: 3.90%\x1b[39m"
            for step in (1, 10, 20, 30, 40)
        ],
        ("tokens_per_s", 4 * 12000),
    ),
    "megatron": (
        [
            f" [2026-01-01 10:00:00] iteration {step:8d}/{500:8d} | consumed samples: {step * 16:12d} | elapsed time "
            "per iteration (ms): 512.3 | learning rate: 1.000E-04 |"
            for step in range(10, 60, 10)
        ],
        ("step_s", 0.5123),
    ),
    "nanogpt": (
        [f"iter {step}: loss 3.2000, time 123.45ms, mfu 12.30%" for step in range(0, 60, 10)],
        ("step_s", 0.12345),
    ),
    "pytorch-examples": (
        [
            f"Epoch: [0][{step:4d}/5005]\tTime  0.345 ( 0.512)\tData  0.001 ( 0.020)\tLoss 6.9e+00 (6.9e+00)"
            for step in range(0, 60, 10)
        ],
        ("step_s", 0.345),
    ),
    "lightning": (
        ["\r".join(f"Epoch 0:  12%|█▏        | {n}/313 [00:05<00:38,  8.00it/s, v_num=0]" for n in range(0, 60, 10))],
        ("step_s", 0.125),
    ),
    "tqdm": (
        ["\r".join(f"train:  12%|█▏   | {n}/313 [1:00:05<10:00:38,  1.19s/it, loss=2.1]" for n in range(0, 60, 10))],
        ("step_s", 1.19),
    ),
    "keras": (
        [
            f"Epoch {n}/3\n390/390 [==============================] - 34s 88ms/step - loss: 1.6 - acc: 0.4"
            for n in (1, 2)
        ]
        + [f"\x1b[1m390/390\x1b[0m \x1b[32m{BAR}\x1b[0m\x1b[37m\x1b[0m \x1b[1m1s\x1b[0m 88ms/step - accuracy: 0.86"],
        ("step_s", 0.088),
    ),
    "json": ([f'{{"step": {n}, "images_per_s": 810.0, "loss": 1}}' for n in range(0, 60, 10)], ("samples_per_s", 810)),
    "huggingface": (
        [
            "{'loss': 0.4851, 'grad_norm': 0.3369, 'learning_rate': 3.63e-06, 'epoch': 4.56}",
            "{'train_runtime': 71.5, 'train_samples_per_second': 6.7, 'train_steps_per_second': 0.8, 'epoch': 4.6}",
        ],
        ("step_s", 1.25),
    ),
}


def rate(lines: list[str], typed: str | None = None, ranks: int = 1) -> LogRate | TooLittle:
    return rate_in(lines_of(["\n".join(lines).encode()]), formats_for(typed), ranks)


def test_every_known_format_is_here() -> None:
    assert sorted(PRINTED) == sorted(row.name for row in FORMATS)


@pytest.mark.parametrize("name", PRINTED)
def test_a_known_format_is_found_by_itself_and_by_its_name(name: str) -> None:
    lines, (kind, value) = PRINTED[name]
    for typed in (None, name):
        found = rate(["starting", *lines, "done"], typed, ranks=4)
        assert isinstance(found, LogRate), found
        assert (found.source, found.kind) == (name, kind) and found.middle == pytest.approx(value)
        assert found.low <= found.middle <= found.high
    assert isinstance(rate(lines, "json" if name != "json" else "tqdm"), TooLittle)


def test_the_bar_of_rich_counts_too() -> None:
    found = rate([f"Epoch 0/9 {BAR} {n}/313 0:00:05 • 0:00:38 8.00it/s v_num: 0" for n in range(0, 60, 10)])
    assert isinstance(found, LogRate) and (found.source, found.middle) == ("lightning", 0.125)


RECORDED = {
    "torchtitan-0.3.0": ("torchtitan", "tokens_per_s", 22_000, 27_000),
    "lightning-2.6.6-tqdm": ("lightning", "step_s", 0.029, 0.032),
    "lightning-2.6.6-rich": ("lightning", "step_s", 1 / 62, 1 / 60),
    "keras-3.15.1": ("keras", "step_s", 0.051, 0.063),
    "keras-3.15.1-verbose-2": ("keras", "step_s", 0.078, 0.123),
    "transformers-5.24.0": ("tqdm", "step_s", 0.71, 1.36),
}
"""What real programs printed (``recordings/README.md``) -> the format and the ends of what their lines say."""


@pytest.mark.parametrize("name", RECORDED)
def test_what_real_programs_printed_gives_their_speed(name: str) -> None:
    source, kind, low, high = RECORDED[name]
    printed = (RECORDINGS / f"{name}.log").read_bytes()
    found = rate_in(lines_of([printed]), FORMATS, ranks=1)
    assert isinstance(found, LogRate), found
    assert (found.source, found.kind) == (source, kind)
    assert low <= found.middle <= high


def test_every_recording_is_read_and_described() -> None:
    assert sorted(RECORDED) == sorted(path.name[: -len(".log")] for path in RECORDINGS.glob("*.log"))
    described = (RECORDINGS / "README.md").read_text()
    assert all(f"`{name}.log`" in described for name in RECORDED)


def test_the_validation_of_torchtitan_does_not_count() -> None:
    train = [f"step: {step:2}  loss:  8.1  tps: 12,000  mfu: 3%" for step in range(0, 60, 10)]
    validate = [f"validate step: {step:2}  loss:  8.1  memory:  1GiB(2%)  tps: 99,000" for step in range(0, 60, 10)]
    mixed = [line for pair in zip(train, validate, strict=True) for line in pair]
    found = rate(mixed)
    assert isinstance(found, LogRate) and (found.low, found.high) == pytest.approx((12_000, 12_000), rel=0.001)


def test_the_validation_of_keras_does_not_count() -> None:
    ends = ["36/36 ━━━ 2s 42ms/step - loss: 2.2", "36/36 ━━━ 3s 67ms/step - loss: 2.2 - val_loss: 2.3"]
    found = rate(ends * 4)
    assert isinstance(found, LogRate) and found.middle == 0.042
    with_it = rate(ends[1:] * 4)
    assert isinstance(with_it, LogRate) and with_it.middle == 0.067


@pytest.mark.parametrize(
    ("bar", "counts"),
    [
        (f"Epoch 2/2 {BAR} 64/64 0:00:01 • 0:00:00 50.00it/s", True),
        (f"Epoch 0/0 {BAR} 640/640 0:02:01 • 0:00:00 50.00it/s", True),  # rich: the last 30 s of two minutes
        (f"Epoch 0/0 {BAR} 64/64 0:00:01 • 0:00:00 50.00it/s", False),  # the first steps are in it
        (f"Epoch 2/2 {BAR} 37/64 0:00:01 • 0:00:00 50.00it/s", False),
        (f"Epoch 2/2 {BAR} 8/8 0:00:01 • 0:00:00 50.00it/s", False),
    ],
)
def test_a_single_bar_of_rich_counts_at_the_end_of_a_later_epoch(bar: str, counts: bool) -> None:
    found = rate([bar])
    assert isinstance(found, LogRate) == counts
    if isinstance(found, LogRate):
        assert found.middle == 0.02 and found.high / found.low > 1.5


def test_the_first_readings_are_left_out_and_counted() -> None:
    slow = [f"iter {n}: loss 3.2, time 9000.00ms, mfu 1%" for n in range(5)]
    found = rate([*slow, *(f"iter {n}: loss 3.2, time 100.00ms, mfu 1%" for n in range(5, 20))])
    assert isinstance(found, LogRate)
    assert (found.middle, found.left_out, found.steps) == (0.1, 5, 15)
    assert found.high < 0.2


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no line has a speed"),
        (["loss 3.2"] * 100, "no line has a speed"),
        ([f"iter {n}: loss 3.2, time 100.00ms" for n in range(4)], "3 steps after the first 1 line: too few"),
        ([f"iter {n}: loss 3.2, time 100.00ms" for n in (0, 50, 100)], "too few"),
        (["390/390 [====] - 34s 88ms/step - loss: 1.6"], "keras: 1 line with a speed, 0 steps"),
        (PRINTED["huggingface"][0][:1], "no line has a speed"),
    ],
)
def test_too_little_is_no_rate(lines: list[str], why: str) -> None:
    found = rate(lines)
    assert isinstance(found, TooLittle) and why in found.why


def test_a_validation_in_the_same_format_does_not_count() -> None:
    train = [f"Epoch 0: 1%| | {n}/313 [00:05<00:38,  8.00it/s]" for n in range(0, 100, 10)]
    validate = [f"Epoch 0: 1%| | {n}/20 [00:05<00:38,  80.00it/s]" for n in range(5)]
    found = rate([*train, *validate])
    assert isinstance(found, LogRate) and found.middle == 0.125


def test_a_rate_that_drifts_has_a_range_with_both_halves() -> None:
    found = rate([f"iter {n}: loss 3.2, time {100 if n < 25 else 150}.00ms" for n in range(50)])
    assert isinstance(found, LogRate)
    assert found.low <= 0.1 and found.high >= 0.15


def test_what_rounding_hides_is_in_the_range() -> None:
    found = rate(["390/390 [====] - 1s 2ms/step - loss: 1.6"] * 3)
    assert isinstance(found, LogRate)
    assert (found.low, found.high) == pytest.approx((0.0015, 0.0025))


def test_a_typed_pattern_names_what_it_finds() -> None:
    lines = [f"[{n / 2:.1f}] step {n}: 1,200.5 img/sec" for n in range(40)]
    for pattern, kind, value in (
        (r"(?P<rate>[\d,.]+) img/sec", "samples_per_s", 1200.5),
        (r"(?P<rank_samples_per_s>[\d,.]+) img/sec", "samples_per_s", 4802.0),
        (r"\[(?P<time>[\d.]+)\] step (?P<step>\d+)", "step_s", 0.5),
    ):
        found = rate(lines, pattern, ranks=4)
        assert isinstance(found, LogRate)
        assert (found.kind, found.middle, found.source) == (kind, pytest.approx(value), "pattern")


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("tdqm", "did you mean 'tqdm'"),
        ("speed=(", "no regular expression"),
        (r"speed=(?P<speed>\d+)", "the group 'speed' has no meaning"),
        (r"speed=(\d+)", "no group of the pattern names a speed"),
        (r"step (?P<step>\d+)", "no group of the pattern names a speed"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_what_is_allowed(typed: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match="--rate-from") as refused:
        formats_for(typed)
    assert why in str(refused.value) and "torchtitan" in str(refused.value) and "step_s" in str(refused.value)


def test_an_endless_line_and_what_is_no_text_are_passed_over() -> None:
    chunks = [
        b"\xff\xfe\x00" * 1000,
        *[b"x" * 100_000] * 20,
        b"\n",
        *[b"iter %d: loss 3.2, time 100.00ms\n" % n for n in range(20)],
    ]
    found = rate_in(lines_of(chunks), FORMATS, 1)
    assert isinstance(found, LogRate) and found.middle == 0.1
    assert all(len(line) <= 1000 for line in lines_of(chunks))


def test_a_pattern_that_would_never_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_rates, "MOST_SECONDS", 0.2)  # of processor time, so that a busy machine changes nothing
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(Refused, match="too many ways to match"), program_rates.time_limit():
        rate(["a" * 900 + "!"], r"(?P<rate>(a+)+)$")
    assert signal.getsignal(signal.SIGVTALRM) == before


@pytest.mark.parametrize(
    "line",
    [
        f'{{"step": 1, "samples_per_s": {"9" * 400}}}',
        f'{{"step": {"9" * 400}, "step_ms": 5e-324}}',
        '{"steps_per_s": 5e-324}',
        '{"steps_per_s": 1e300}',
        f"{{'train_runtime': {'9' * 200}, 'train_samples_per_second': 1, 'train_steps_per_second': {'9' * 200}, }}",
        f"{{'train_runtime': {'9' * 200}, 'train_samples_per_second': 1, 'train_steps_per_second': 0.8, }}",
        "iter 1: loss 3.2, time 0." + "0" * 40 + "1ms",
    ],
)
def test_a_figure_that_no_program_can_have_is_passed_over(line: str) -> None:
    assert isinstance(rate([line] * 40), TooLittle)
    good = [f'{{"step": {n}, "samples_per_s": 810.0}}' for n in range(0, 60, 10)]
    found = rate([line, *good])
    assert isinstance(found, LogRate) and (found.source, found.middle) == ("json", 810.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,234.5", 1234.5), ("12,345", 12345.0), ("810", 810.0), ("1e-3", 1e-3), ("0,345", None), ("1,5", None)],
)
def test_a_comma_counts_only_between_thousands_and_an_exponent_always(text: str, value: float | None) -> None:
    for pattern in (r"speed=(?P<rate>[\d,.e-]+)", *([r"speed=(?P<rate>[\d.]+)"] * ("," not in text))):
        found = rate([f"step {n} speed={text}" for n in range(40)], pattern)
        assert (found.middle if isinstance(found, LogRate) else None) == value


def test_the_summary_of_a_training_may_have_an_exponent() -> None:
    found = rate(["{'train_runtime': 5e4, 'train_samples_per_second': 1e-2, 'train_steps_per_second': 1e-3, }"])
    assert isinstance(found, LogRate) and found.middle == 1000.0


def test_an_iteration_of_megatron_with_its_global_batch_gives_samples_of_all_ranks() -> None:
    line = " iteration {:8d}/     500 | elapsed time per iteration (ms): 512.0 | global batch size:   256 |"
    found = rate([line.format(step) for step in range(10, 60, 10)], ranks=4)
    assert isinstance(found, LogRate)
    assert (found.kind, found.middle, found.source) == ("samples_per_s", 500.0, "megatron")


def test_the_loop_with_the_most_time_counts_and_of_nested_ones_the_inner() -> None:
    files = [f"files: 1%| | {n}/5000 [00:01<00:02, 1000.00it/s]" for n in range(0, 5001, 50)]
    found = rate(files)
    assert isinstance(found, LogRate) and (found.loop, found.other_loops) == (5000, ())
    assert found.loop_s == pytest.approx(5.0)
    train = [f"train: 1%| | {n}/313 [00:05<00:38,  8.00it/s]" for n in range(0, 300, 10)]
    found = rate([*files, *train])
    assert isinstance(found, LogRate)
    assert (found.middle, found.loop, found.other_loops) == (0.125, 313, (5000,))
    epochs = [f"epochs: 1%| | {n}/20 [00:50<01:00, 39.00s/it]" for n in range(20)]
    nested = [line for epoch in epochs for line in (epoch, *train)]
    found = rate(nested)
    assert isinstance(found, LogRate) and (found.loop, found.other_loops) == (313, (20,))


@pytest.mark.parametrize(
    "line",
    [
        " 50%|\x1b[32m█████     \x1b[0m| {n}/400 [00:01<00:01, 8.00batch/s, loss=1]",
        "  5%|█  | {n}/400 [01:00<10:00,  8.00 steps/s]",
        "epoch 1: {n}it [00:07,  8.00it/s]",
        "{n} batches [1:00:07, 8.00 batches/s]",
    ],
)
def test_a_bar_may_have_another_unit_of_steps_and_no_end(line: str) -> None:
    found = rate(["\r".join(line.format(n=n) for n in range(0, 60, 10))])
    assert isinstance(found, LogRate) and (found.kind, found.middle, found.source) == ("step_s", 0.125, "tqdm")


def test_a_loop_without_an_end_before_one_with_an_end_prepares_it() -> None:
    prepare = [f"{n}it [00:55, 700.00it/s]" for n in range(0, 40000, 70)]
    found = rate(prepare)
    assert isinstance(found, LogRate) and found.may_be_another and (found.loop, found.other_loops) == (None, ())
    train = [f"train: 1%| | {n}/300 [00:05<00:38,  5.00it/s]" for n in range(140)]
    found = rate([*prepare, *train])
    assert isinstance(found, LogRate)
    assert (found.middle, found.loop, found.other_loops) == (0.2, 300, (None,))


@pytest.mark.parametrize("ends", [(1,), (20, 20), (1, 20, 20)])
def test_a_loop_without_an_end_counts_beside_shorter_ones_with_an_end(ends: tuple[int, ...]) -> None:
    """Epochs around it, and validations after each."""
    train = [f"train: {n}it [00:05,  8.00it/s]" for n in range(0, 300, 10)]
    lines = [*train]
    for number, total in enumerate(ends, 1):
        lines += [f"others: 1%| | {min(number, total)}/{total} [00:40<00:38, 40.00s/it]", *(train * (total > 1))]
    found = rate(lines)
    assert isinstance(found, LogRate) and (found.middle, found.loop) == (0.125, None)


def test_a_bar_of_images_is_no_bar_of_steps() -> None:
    bar = "\r".join(f" 50%|██  | {n}/400 [00:01<00:01, 8.00img/s]" for n in range(0, 60, 2))
    assert isinstance(rate([bar]), TooLittle)
    typed = rate([bar], r"(?P<rank_samples_per_s>[\d.]+)img/s", ranks=2)
    assert isinstance(typed, LogRate) and (typed.kind, typed.middle) == ("samples_per_s", 16.0)
