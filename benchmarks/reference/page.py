"""Writes docs/reference-documents.md: the five reference documents, element by element, with what came out here.

    python benchmarks/reference/page.py --write | --check | --missing

The elements stand in elements.yaml. `{STUDY/CASE:VALUE}` in its texts is the median over the seeds of a committed
result, with its range; `{STUDY/CASE:VALUE%}` in percent, `{STUDY/CASE:VALUE.2f}` with two decimals; `*` after the form
lists the values of all seeds instead. `tables` names those of `guidelines.py` that a document has. --check ends with 1
if the page is not what would be written, --missing if a figure has no result yet; it lists them.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import guidelines_report
import guidelines_rules
import store
import studies
import user_folders
import yaml
from medians import three_digits

from hpclaunch.core.units import count

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference-documents.md"
ELEMENTS = Path(__file__).parent / "elements.yaml"
PLACE = re.compile(r"\{(?P<study>[\w-]+)/(?P<case>[\w.-]+):(?P<value>\w+)(?P<form>%|\.\d+f)?(?P<each>\*)?\}")
NOT_YET = "not measured yet"
SEEDS = 3
"""Seeds of a figure; if it has fewer, the page says how many."""
NO_RUNS = ("fit", "data")
"""Results that are none of a run with a seed: a fit to many runs, and the generation of data."""
RULES_AT = "perlmutter"
"""The site whose plans are on the page: the one that the guidelines are for."""
HEADS = (
    "element",
    "what the document reports",
    "what came out here",
    "why they differ",
    "command; seeds, date, processor",
)


def data_sets() -> str:
    """The guidelines' table of data sets, with the project's own jobs."""
    return f"### Data sets\n\n{guidelines_report.data_sets(store.RESULTS)}"


def rules() -> str:
    """The verdict of each rule on each bundled job at one site, whatever the person who writes it has measured."""
    with user_folders.of_a_new_user():
        held = guidelines_rules.verdicts_by_job(RULES_AT, guidelines_rules.jobs_that_train())
    return guidelines_rules.section(RULES_AT, held)


TABLES = {"data": data_sets, "rules": rules}


@dataclass
class Found:
    """The text of one element's figures, and the results behind them."""

    results: list[store.Result] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def text(self, words: str) -> str:
        """The words with every figure in its place."""
        return PLACE.sub(self._figure, words)

    def _figure(self, place: re.Match[str]) -> str:
        if place["case"] not in studies.cases_of(place["study"]):
            raise SystemExit(f"{ELEMENTS.name}: {place[0]}: the study has no such case")
        results = [result for result in results_of(place["study"]) if result.case == place["case"]]
        values = [result.measured[place["value"]] for result in results if place["value"] in result.measured]
        if not values:
            self.missing.append(place[0])
            return NOT_YET
        self.results += results
        if place["each"]:
            return " ".join([listed(values, place["form"]), *(f"({text})" for text in remark_of(results, len(values)))])
        middle, low, high = (
            shown(value, place["form"]) for value in (statistics.median(values), min(values), max(values))
        )
        remarks = [] if low == high else [f"{low} to {high}"]
        remarks += remark_of(results, len(values))
        unit = " %" if place["form"] == "%" else ""
        return f"{middle}{unit} ({'; '.join(remarks)})" if remarks else f"{middle}{unit}"

    def made(self) -> str:
        """Seeds, dates and processors of the results."""
        if not self.results:
            return ""
        dates = sorted({result.date[:10] for result in self.results})
        machines = [result.machine for result in self.results]
        processors = sorted({f"{one['processor']}, {count(one['cores'], 'core')}" for one in machines})
        is_fit = all(result.case in NO_RUNS for result in self.results)
        which = "all runs" if is_fit else in_words(sorted({result.seed for result in self.results}))
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        return f"{which}; {when}; {'; '.join(processors)}"


def in_words(seeds: Sequence[int]) -> str:
    """Seeds in ascending order: "seed 2", "seeds 1 to 3", "seeds 1, 3"."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    without_gap = seeds[-1] - seeds[0] == len(seeds) - 1
    return f"seeds {seeds[0]} to {seeds[-1]}" if without_gap else f"seeds {', '.join(map(str, seeds))}"


def remark_of(results: Sequence[store.Result], known: int) -> list[str]:
    """What a reader must know of the runs behind a figure: that some have no such value, or that they are few."""
    if results[0].case in NO_RUNS:
        return []
    if known < len(results):
        return [f"{known} of {count(len(results), 'run')}"]
    return [count(known, "run")] if known < SEEDS else []


def listed(values: Sequence[float], form: str | None) -> str:
    """The figures of all seeds in their order: "1, 2 and 3", with one unit at the end."""
    *first, last = (shown(value, form) for value in values)
    unit = " %" if form == "%" else ""
    return f"{', '.join(first)} and {last}{unit}" if first else f"{last}{unit}"


def shown(value: float, form: str | None) -> str:
    """A figure for a reader: three digits where no form is asked for, and commas between the thousands."""
    if form == "%":
        return f"{100 * value:.1f}"
    return f"{value:,{form}}" if form else three_digits(value)


@cache
def results_of(study: str) -> list[store.Result]:
    """The committed results of a study with the settings of today."""
    return studies.current(study)


def page() -> tuple[str, list[str]]:
    """The page's text, and the figures that have no result yet."""
    documents = yaml.safe_load(ELEMENTS.read_text(encoding="utf-8"))
    parts, missing = [documents["introduction"].strip()], []
    for document in documents["documents"]:
        parts.append(f"## {document['title']}\n\n{document['about'].strip()}")
        rows = [row(element, missing) for element in document["elements"]]
        parts.append("\n".join("| " + " | ".join(cells) + " |" for cells in [list(HEADS), ["---"] * len(HEADS), *rows]))
        parts += [TABLES[name]() for name in document.get("tables", [])]
        drawn = document.get("pictures", {}).items()
        parts += [f"Picture: {words} (in a checkout, `make docs` draws `docs/{path}`)." for path, words in drawn]
    return "\n\n".join(parts) + "\n", missing


def row(element: dict[str, str], missing: list[str]) -> list[str]:
    """The cells of an element, in the order of HEADS. Figures without a result are added to `missing`."""
    found = Found()
    here, why = found.text(element["here"]), found.text(element["why"])
    if found.missing and not found.results:
        here = NOT_YET
    missing += found.missing
    command = f"`{element['command']}`" if "command" in element else element["see"]
    last = "; ".join(text for text in (command, found.made()) if text)
    return [" ".join(cell.split()) for cell in (element["element"], element["reports"], here, why, last)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    what.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    text, missing = page()
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    if options.missing:
        print("\n".join(missing))
        return 1 if missing else 0
    if options.check and PAGE.read_text(encoding="utf-8") != text:
        print(
            "docs/reference-documents.md is not up to date: python benchmarks/reference/page.py --write",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
