"""The hosts of the ranks, as the library lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import with_library


@pytest.mark.parametrize(("code", "written"), [(0, "n1 slots=4\nn2 slots=4\n"), (1, "")])
def test_row_05_the_list_of_hosts_is_one_host_a_line_or_stops_the_script(
    tmp_path: Path, code: int, written: str
) -> None:
    answer = 'echo "no such list" >&2; return 1' if code else 'printf "%s\\n" n1 n2'
    scontrol = f'scontrol() {{ [ "$*" != "show hostnames n[1-2]" ] || {{ {answer}; }}; }}'
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "SLURM_JOB_NODELIST": "n[1-2]"}
    done = with_library(f"{scontrol}\nscheduler=slurm; list_hosts 4", **known)
    assert (done.returncode, (tmp_path / "hosts").read_text()) == (78 if code else 0, written)
    assert ("listing the hosts of the job: failed" in done.stderr) is bool(code)
