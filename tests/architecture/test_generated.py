"""What ``tools/generated.py`` writes is as the facts say that it repeats, and it finds each change of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.core import run_states

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "tools" / "generated.py").exists():
    pytest.skip("group checkout: an sdist holds no tools", allow_module_level=True)

from tools import generated  # noqa: E402


def test_nothing_that_is_generated_is_out_of_date() -> None:
    assert generated.outdated() == [], "python tools/generated.py --write"


def test_a_new_end_reaches_the_library_of_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "OF_SCHEDULER", run_states.OF_SCHEDULER | {"ZAPPED"})
    [library] = [path for path in generated.outdated() if path.suffix == ".sh"]
    text = generated.generated()[library]
    assert "| TIMEOUT | ZAPPED) ;;\n" in text
    assert text.replace(" | ZAPPED", "") == library.read_text()


def test_an_end_is_one_of_the_scheduler_or_of_hpclaunch() -> None:
    assert {"NOT_SUBMITTED", "FORGOTTEN"} == run_states.FINAL - run_states.OF_SCHEDULER
    assert not run_states.FINAL & {*run_states.ACTIVE, *run_states.NEVER_QUEUED}


def test_a_new_parameter_is_a_setting_with_its_type() -> None:
    row = {"type": "epochs", "default": "", "help": "-"}
    text = generated.setting_types({"all": ["new"], "new": {"zapped": row, "named": {**row, "type": "text"}}})
    assert text.endswith("    zapped: tuple[float, ...]\n    named: str\n")
