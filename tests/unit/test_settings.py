from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.errors import InvalidFile
from hpclaunch.settings import Settings, load_settings, sbatch_variables


def test_an_absent_file_is_an_empty_one(tmp_path: Path) -> None:
    assert load_settings(tmp_path) == Settings()


def test_a_value_for_one_site_wins_over_the_one_for_all(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("site: here\naccount: all\nqos: low\nsites: {there: {account: special}}\n")
    settings = load_settings(tmp_path)
    assert settings.site == "here"
    assert settings.value("account", "there") == "special"
    assert settings.value("account", "here") == "all"
    assert settings.value("qos", "there") == "low"
    assert settings.value("partition", "there") is None


def test_every_fault_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("acount: x\nsites: {there: {qso: low}}\n")
    with pytest.raises(InvalidFile) as caught:
        load_settings(tmp_path)
    text = str(caught.value)
    assert "settings.yaml: acount: unknown key; did you mean 'account'?" in text
    assert "settings.yaml: sites.there.qso: unknown key; did you mean 'qos'?" in text


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, {}),
        ({"SBATCH_ACCOUNT": "a"}, {"account": ("SBATCH_ACCOUNT", "a")}),
        (
            {"SBATCH_PARTITION": "p", "SBATCH_QOS": "q"},
            {"partition": ("SBATCH_PARTITION", "p"), "qos": ("SBATCH_QOS", "q")},
        ),
        ({"SBATCH_ACCOUNT": ""}, {}),
        ({"SBATCH_ACCOUNT": "a", "SLURM_JOB_ID": "7"}, {}),
    ],
)
def test_row_01_sbatch_variables_count_outside_a_job_only(
    environment: dict[str, str], found: dict[str, tuple[str, str]]
) -> None:
    assert sbatch_variables(environment) == found
