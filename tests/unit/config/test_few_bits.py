"""Formats of 8 bits are answered with what is possible, and never with another format's name."""

from __future__ import annotations

import pytest

from hpclaunch.config.parameters import NO_FEW_BITS, Parameter

FORMATS = Parameter(type="text", default="float32", choices=("float32", "float16", "bfloat16"))


@pytest.mark.parametrize("name", ["fp8", "float8_e4m3", "FP8", "int8", "e5m2", "fp4", "nvfp4", "mxfp8"])
def test_few_bits_are_for_a_program_of_ones_own(name: str) -> None:
    with pytest.raises(ValueError, match="float32, float16, bfloat16: no bundled job") as refused:
        FORMATS.parse(name)
    assert str(refused.value).endswith(NO_FEW_BITS)


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "floot32"])
def test_other_formats_are_answered_as_before(name: str) -> None:
    with pytest.raises(ValueError, match="is not one of") as refused:
        FORMATS.parse(name)
    assert NO_FEW_BITS not in str(refused.value)


def test_a_parameter_without_formats_says_nothing_of_them() -> None:
    with pytest.raises(ValueError, match="is not one of") as refused:
        Parameter(type="text", default="a", choices=("a", "b")).parse("fp8")
    assert NO_FEW_BITS not in str(refused.value)
