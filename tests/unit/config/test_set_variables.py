"""Files of settings that hold values of variables."""

from __future__ import annotations

import pytest

from hpclaunch.config.set_variables import may_set_variables, settings_reason


@pytest.mark.parametrize(
    "name", ["job.yaml", "jobs/a/job.yaml", "hpclaunch.yaml", "x/settings.yaml", "site_configs/mine.yaml"]
)
def test_hpclaunchs_own_files_may_set_variables(name: str) -> None:
    assert may_set_variables(name)


@pytest.mark.parametrize("name", ["environment.yaml", "my-job.yaml", "mine.yaml", "job.yaml.txt", "hpclaunch.yaml/x"])
def test_other_files_are_not_read_as_settings(name: str) -> None:
    assert not may_set_variables(name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("environment: {variables: {DB_URL: x, PIN: 7, NCCL_DEBUG: INFO, NONE: ''}}", "DB_URL, PIN"),
        ("partitions: [{environment:\n  {variables: {A: 0}}}]", "A"),
        ("environment: {variables: {OMP_NUM_THREADS: 8}}", ""),
        ("parameters: {A: 0}\nvariables: [A]\n", ""),
        ("", ""),
    ],
)
def test_the_variables_are_named(text: str, names: str) -> None:
    assert settings_reason(text.encode()) == (f"it holds the values of variables ({names})" if names else "")


@pytest.mark.parametrize("content", [b"a: {", b"\xff", b"- a\n", b"a: &x {variables: {A: 1}}\nb: *x\n"])
def test_what_cannot_be_read_may_hold_values(content: bytes) -> None:
    assert settings_reason(content) == "it may set variables, and is not valid YAML"


def test_lines_of_set_up_are_looked_at_too() -> None:
    reason = "its lines of set-up may set variables"
    assert settings_reason(b"environment: {setup: [module load x, export A=1]}") == reason
    assert settings_reason(b"partitions: {p: {rank_setup: export A=1}}") == reason
    assert settings_reason(b"environment: {setup: [module load x, export OMP_NUM_THREADS=1]}\nnote: A=1") == ""
