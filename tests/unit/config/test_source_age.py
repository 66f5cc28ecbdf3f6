"""How old the sources of a site file are: dates of days, months and years, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from hpclaunch.config.provenance import values
from hpclaunch.config.site import Source
from hpclaunch.config.source_age import (
    age_words,
    date_of,
    is_old,
    months_between,
    newest_of_file,
    old_keys,
    old_origins,
)
from tests.builders import a_site


@pytest.mark.parametrize(
    ("read", "day"),
    [
        ("2026-02-03", date(2026, 2, 3)),
        ("2024-02", date(2024, 2, 29)),
        ("2025-12", date(2025, 12, 31)),
        ("2026", date(2026, 12, 31)),
        ("undated", None),
        ("2026-13-01", None),
        ("2026-13", None),
        ("2026-02-30", None),
        ("3 May 2026", None),
    ],
)
def test_a_date_is_the_last_day_that_it_can_mean(read: str, day: date | None) -> None:
    assert date_of(read) == day


def test_months_are_whole_and_never_negative() -> None:
    today = date(2026, 11, 28)
    sources = (date(2026, 11, 1), date(2026, 10, 20), date(2025, 11, 27), date(2025, 11, 28), date(2025, 11, 29))
    assert [months_between(source, today) for source in sources] == [0, 1, 12, 12, 11]
    assert months_between(date(2026, 12, 31), today) == 0


def test_values_are_old_if_all_their_sources_are_dated_and_older_than_18_months() -> None:
    today = date(2026, 11, 28)
    sources = {
        "old": Source(ref="the guide of then", read="2025-05-27"),
        "young": Source(ref="the guide of today", read="2025-05-29"),
        "some day": Source(ref="a page", read="undated"),
    }
    site = replace(a_site(), sources=sources)
    names = [("old",), ("young",), ("old", "young"), ("old", "some day"), ("old", "hpclaunch"), ()]
    assert [one for one in names if is_old(site, one, today)] == [("old",)]
    site = replace(site, origins={"title": ("young",), "defaults": ("old",)})
    found = values(site, {"title": "x", "defaults": {"walltime": "1:00", "qos": "a"}})
    assert old_keys(site, found, today) == {"defaults.walltime", "defaults.qos"}


def test_the_newest_source_of_a_file_in_words() -> None:
    today = date(2026, 11, 28)
    sources = {"a": Source(ref="x", read="2026-11-20"), "b": Source(ref="x", read="undated")}
    assert age_words(replace(a_site(), sources=sources), today) == "of 2026-11-20, this month"
    sources["a"] = Source(ref="x", read="2026-10-20")
    assert age_words(replace(a_site(), sources=sources), today) == "of 2026-10-20, 1 month ago"
    assert age_words(replace(a_site(), sources={"b": sources["b"]}), today) == ""


@pytest.mark.parametrize(
    ("reads", "newest", "words"),
    [
        (("2026", "2026-08-12"), "2026-08-12", "of 2026-08-12, 3 months ago"),
        (("2026", "2025-12-31"), "2026", "of 2026"),
        (("2026-11", "2026"), "2026-11", "of 2026-11"),
        (("2024", "undated"), "2024", "of 2024, 22 months ago or more"),
        (("2026-09",), "2026-09", "of 2026-09, 1 month ago or more"),
    ],
)
def test_a_year_alone_is_no_day_and_never_one_to_come(reads: tuple[str, ...], newest: str, words: str) -> None:
    site = replace(a_site(), sources={read: Source(ref="x", read=read) for read in reads})
    assert (newest_of_file(site), age_words(site, date(2026, 11, 28))) == (newest, words)


def test_the_keys_whose_sources_are_all_old() -> None:
    sources = {"old": Source(ref="x", read="2023"), "young": Source(ref="x", read="2026-05")}
    origins = {"title": ("old",), "partitions.debug": ("old",), "defaults": ("old", "young")}
    site = replace(a_site(), sources=sources, origins=origins)
    assert old_origins(site, date(2026, 11, 28)) == ["title", "partitions.debug"]
