"""The table of what was looked up of every site in service has a row for each, and no empty cell."""

import re
from pathlib import Path

from hpclaunch.config.catalog import SITE
from tests.builders import BUNDLED, bundled_site

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sites-checked.md"


def rows() -> list[list[str]]:
    """The cells of the table's rows, below its heading."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| site | limits"))
    table = lines[first + 2 :]
    last = next(number for number, line in enumerate(table) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:last]]


def test_every_site_in_service_has_a_row_in_alphabetical_order() -> None:
    sites = [bundled_site(found.name) for found in BUNDLED.names(SITE)]
    in_service = sorted(site.name for site in sites if site.status == "production" and site.scheduler == "slurm")
    assert [row[0] for row in rows()] == in_service


def test_every_cell_says_when_and_where_it_was_looked_up_or_that_nothing_is_public() -> None:
    cells = [(row[0], cell) for row in rows() for cell in row[1:]]
    assert all(len(row) == 9 for row in rows())
    assert [one for one in cells if not re.match(r"checked \d{4}-\d\d-\d\d, .|not public", one[1])] == []
