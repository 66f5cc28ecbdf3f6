"""What Slurm's programs write: of the test cluster (22.05), and in the formats of 23.11 and 24.05."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from hpclaunch.sites.describe.draft import Answers

FOLDER = Path(__file__).parent


def answers(version: str) -> Answers:
    """The texts of one version; a program that has none was silent."""
    files = {one.name: FOLDER / f"slurm_{version.replace('.', '_')}" / f"{one.name}.txt" for one in fields(Answers)}
    return Answers(**{name: file.read_text(encoding="utf-8") for name, file in files.items() if file.exists()})
