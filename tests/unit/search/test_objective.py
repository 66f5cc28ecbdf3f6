from __future__ import annotations

from pathlib import Path

from hpclaunch.search.objective import Reports


def test_reports_are_read_as_they_are_written_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reports = Reports(path, "loss")
    assert reports.read() == []
    huge = "1" + "0" * 400  # a whole number beyond every float
    path.write_text(f'{{"epoch": 1, "loss": 0.5}}\n{{"epoch": 2, "loss": {huge}}}\n{{"loss": NaN}}\n{{"loss": 0.')
    assert reports.read() == [(1, 0.5)]
    with path.open("a") as file:
        file.write('25}\nloss\n{"epoch": 4, "loss": "0.125"}\n')
    assert reports.read() == [(4, 0.25), (4, 0.125)]
    assert reports.value == 0.125
