"""What the page on searches shows is what a search takes."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from hpclaunch.core.errors import Fault
from hpclaunch.search.names import idle
from hpclaunch.search.space_file import terms_of
from tests.builders import bundled_job

PAGE = Path(__file__).resolve().parents[2] / "docs" / "search.md"


def test_the_example_has_only_settings_with_an_effect() -> None:
    text = PAGE.read_text(encoding="utf-8")
    (block,) = [each for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "sampler: random" in each]
    parameters = bundled_job("cifar").parameters
    whole = {name for name, row in parameters.items() if row.value_type == "int"}
    faults: list[Fault] = []
    terms = terms_of(yaml.safe_load(block), "space.yaml", whole, faults)
    assert not faults and not idle(terms.space, parameters, {})
