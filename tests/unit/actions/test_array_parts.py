"""What the record of an array has room for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.queueing.array_parts import _new_start
from hpclaunch.core.errors import Refused
from hpclaunch.runs.array_parts import ArrayPart
from tests.builders import a_run


@pytest.mark.parametrize("length", [runs.MOST_IN_PARTS - 1, runs.MOST_IN_PARTS])
def test_a_further_start_is_refused_if_its_record_could_not_be_read_again(tmp_path: Path, length: int) -> None:
    array = replace(a_run(tmp_path, "4712"), tasks=2, earlier=("4711",), parts=("0" * length, ""))
    part = ArrayPart(indices=(1,))
    if length < runs.MOST_IN_PARTS:
        started = runs.save(replace(array, **_new_start(array, part)))
        assert runs.load(array.path).parts == started.parts == (*array.parts, "1")
    else:
        with pytest.raises(Refused, match="has no room for a further start: 2 starts have listed their runs in it"):
            _new_start(array, part)
