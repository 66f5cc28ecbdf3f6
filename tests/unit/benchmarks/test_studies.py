"""Which results of a study are shown: those with the settings of today, and of one case only such that are alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

if not (Path(__file__).parents[3] / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Reference = Callable[[str], ModuleType]


@pytest.fixture
def write(reference: Reference, tmp_path: Path) -> Callable[[str, int, dict[str, Any]], None]:
    """Writes a result of the study a_study."""
    store = reference("store")

    def written(case: str, seed: int, settings: dict[str, Any], study: str = "a_study") -> None:
        store.write(store.Result(study=study, case=case, seed=seed, settings=settings, measured={}), tmp_path)

    return written


def seeds(found: dict[str, list[Any]]) -> dict[str, list[int]]:
    return {case: [one.seed for one in results] for case, results in found.items()}


def test_a_result_with_other_settings_or_of_no_case_is_left_out(
    reference: Reference, tmp_path: Path, write: Callable[..., None]
) -> None:
    write("b", 1, {"rate": 0.1, "sizes": [1, 2]})
    write("b", 2, {"rate": 0.2, "sizes": [1, 2]})
    write("b", 3, {"rate": 0.1, "sizes": [1, 2], "more": 1})
    write("b", 10, {"rate": 0.1, "sizes": [1, 2]})
    write("a", 1, {"rate": 0.1})
    write("was-here", 1, {"rate": 0.1})
    wanted = {"b": {"rate": 0.1, "sizes": (1, 2)}, "a": {"rate": 0.1}, "to-do": {}}
    found = reference("store").with_settings("a_study", wanted, tmp_path)
    assert seeds(found) == {"b": [1, 10], "a": [1]}
    assert list(found) == ["b", "a"]  # in the order of the cases


def test_an_open_setting_is_that_of_the_first_seed(
    reference: Reference, tmp_path: Path, write: Callable[..., None]
) -> None:
    store = reference("store")
    for seed, rate, epochs in ((1, 0.1, 2), (2, 0.2, 3), (3, 0.3, 3), (4, 0.2, 3)):
        write("a", seed, {"rate": rate, "epochs": epochs})
    wanted = {"a": {"rate": store.ANY, "epochs": 3}}
    assert seeds(store.with_settings("a_study", wanted, tmp_path)) == {"a": [2, 4]}


def test_small_results_are_shown_beside_the_full_ones_and_never_among_them(
    reference: Reference, tmp_path: Path, write: Callable[..., None]
) -> None:
    studies, cases = reference("studies"), reference("sharpness_cases")
    small, full = cases.wanted(True), cases.wanted(False)
    for case, seed, settings in (
        ("small-batch", 1, small),
        ("large-batch", 1, small),
        ("large-batch", 2, full),
    ):
        write(case, seed, settings[case], "sharpness")
    assert seeds(studies.by_case("sharpness", tmp_path)) == {"small-batch": [1], "large-batch": [2]}


def test_every_committed_study_is_known(reference: Reference) -> None:
    store, studies = reference("store"), reference("studies")
    tables = {path.stem for path in store.RESULTS.glob("*.csv")}
    # The tuning's runs are read by critical_batch.py alone.
    assert tables == {*studies.WANTED, studies.LAW, "critical_batch_rates"}
    assert {one.case for one in studies.current("large_batch")} <= set(reference("rows").BY_NAME)


def test_a_table_keeps_the_values_that_something_reads_and_the_raw_result_all(
    reference: Reference, tmp_path: Path
) -> None:
    store = reference("store")
    measured = {"test_accuracy": 0.5, "test_loss": 1.5, "curve": {"accuracy": [0.1, None], "loss": [2.0, 1.0]}}
    one = store.Result(study="guidelines_updates", case="lag", seed=1, settings={"epochs": 8}, measured=measured)
    store.write(one, tmp_path)
    found = store.read("guidelines_updates", "lag", 1, tmp_path)
    assert found.measured == {"test_accuracy": 0.5, "curve": {"accuracy": [0.1, None]}}
    assert (found.settings, found.date, found.machine) == (one.settings, one.date, one.machine)
    assert store.read_raw("guidelines_updates", "lag", 1, tmp_path) == one


def test_every_committed_column_is_kept(reference: Reference) -> None:
    store, table, kept = reference("store"), reference("table"), reference("kept").KEPT
    peers = store.RESULTS.parents[1] / "peers" / "results"
    for study, names in kept.items():
        rows = table.read(store.path_of(study, peers if study == "peers" else store.RESULTS))
        columns = {name for row in rows for name in row}
        others = (store.MACHINE, store.SETTINGS)
        measured = {one for one in columns if one not in (*store.KEYS, "date") and not one.startswith(others)}
        assert rows and all(any(table.is_within(one, name) for name in names) for one in measured), study


VALUES = {
    "text": "two words, and a comma",
    "number as text": "1.0",
    "null as text": "null",
    "quoted": '"a"',
    "lines": "one\ntwo\r\nthree",
    "empty": "",
    "none": None,
    "yes": True,
    "whole": 3,
    "small": 1e-300,
    "sum": 0.1 + 0.2,
    "list": [1, None, 2.5, "a,b", {"c": "d"}],
    "nothing in it": {},
    "nested": {"deeper": {"still": [1]}, "ünïcødé": "✓"},
}


def test_every_value_comes_back_from_a_table_as_it_was(reference: Reference, tmp_path: Path) -> None:
    table, path = reference("table"), tmp_path / "a.csv"
    table.put(path, {"seed": 2, **table.flat(VALUES, "of.")}, ("seed",))
    table.put(path, {"seed": 1, "later": 5}, ("seed",), order=("seed", "later"))
    table.put(path, {"seed": 1, "later": 6}, ("seed",), order=("seed", "later"))
    first, second = table.read(path)
    assert first == {"seed": 1, "later": 6}
    found = table.nested(second, "of.")
    assert found == VALUES
    assert {name: type(value) for name, value in found.items()} == {name: type(one) for name, one in VALUES.items()}
    assert path.read_text().startswith("seed,later,of.text,")
    assert table.read(tmp_path / "none.csv") == []
    with pytest.raises(ValueError, match="has no dot"):
        table.flat({"a.b": 1})


def test_three_digits(reference: Reference) -> None:
    medians = reference("medians")
    values = (0.0123456, 12.34, 999.4, 999.6, 1118.3, -5.0, -12345.6)
    assert [medians.three_digits(value) for value in values] == [
        "0.0123",
        "12.3",
        "999",
        "1,000",
        "1,118",
        "-5",
        "-12,346",
    ]
    assert medians.spread([1118.3, 2.0, 12.34], medians.three_digits) == "12.3 (2 to 1,118)"
    assert (medians.spread([], ".1f"), medians.spread([3.0, 1.0, 2.0], ".1f")) == ("", "2.0 (1.0 to 3.0)")


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (
            "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n\ncpu family\t: 1\n",
            "AMD EPYC (family 26, model 2)",
        ),
        ("model name\t: ARMv8\n", "ARMv8"),
    ],
)
def test_a_processor_has_its_family_and_model_where_they_are_known(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, name: str
) -> None:
    module = reference("processor")
    (tmp_path / "cpuinfo").write_text(told)
    monkeypatch.setattr(module, "CPUINFO", tmp_path / "cpuinfo")
    assert module.processor() == name


@pytest.mark.parametrize(("seeds", "words"), [([2], "seed 2"), ([1, 2, 3], "seeds 1 to 3"), ([1, 3], "seeds 1, 3")])
def test_the_page_names_the_seeds(reference: Reference, seeds: list[int], words: str) -> None:
    assert reference("page").in_words(seeds) == words


def a_result(reference: Reference, case: str, seed: int, **measured: float) -> Any:
    return reference("store").Result(study="a_study", case=case, seed=seed, settings={}, measured=measured)


def test_sharpness_is_compared_with_the_small_batch_of_the_seed_at_the_nearest_loss(reference: Reference) -> None:
    above, below = "small-batch-loss-above", "small-batch-loss-below"
    found = {
        "large-batch": [
            a_result(reference, "large-batch", 1, sharpness=6.0, training_loss=0.10),
            a_result(reference, "large-batch", 2, sharpness=6.0, training_loss=0.10),
            a_result(reference, "large-batch", 3, sharpness=6.0, training_loss=0.10),
        ],
        above: [
            a_result(reference, above, 1, sharpness=3.0, training_loss=0.11),
            a_result(reference, above, 2, sharpness=3.0, training_loss=0.30),
        ],
        below: [
            a_result(reference, below, 1, sharpness=2.0, training_loss=0.05),
            a_result(reference, below, 2, sharpness=2.0, training_loss=0.05),
        ],
    }
    derived = reference("sharpness_cases").with_ratio(found)
    assert [one.measured.get("times_as_sharp") for one in derived["large-batch"]] == [2.0, 3.0, None]
    assert derived[above] == found[above]


def test_times_are_compared_with_one_rank_of_the_seed(reference: Reference) -> None:
    one, two = "ranks-1x32-constant", "ranks-2x16-constant"
    found = {
        one: [a_result(reference, one, 1, seconds=10.0), a_result(reference, one, 2, loss=1.0)],
        two: [a_result(reference, two, seed, seconds=25.0) for seed in (1, 2)]
        + [a_result(reference, two, 3, loss=1.0)],
    }
    derived = reference("parallel_cases").with_ratio(found)
    assert [result.measured.get("times_one_rank") for result in derived[two]] == [2.5, None, None]


def test_the_page_lists_figures_of_all_seeds_and_says_how_many_if_they_are_few(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reference("page")
    known = [a_result(reference, "large-batch", seed, sharpness=100.0 * seed) for seed in (1, 2)]
    monkeypatch.setattr(page, "results_of", lambda study: known)
    place = "{sharpness/large-batch:sharpness.0f*}"
    assert page.Found().text(place) == "100 and 200 (2 runs)"
    known.append(a_result(reference, "large-batch", 3, sharpness=300.0))
    assert page.Found().text(place) == "100, 200 and 300"
    assert page.listed([0.5, 0.25], "%") == "50.0 and 25.0 %"
