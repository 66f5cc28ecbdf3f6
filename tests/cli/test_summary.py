"""What a person reads at a submission: a summary, once what stays true, and with -v each choice; and the help."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.conftest import Desk


@pytest.mark.parametrize("target", ["cifar", "./train.py"])
def test_a_submission_prints_at_most_ten_lines_and_the_rest_with_v(cluster: Desk, target: str) -> None:
    cluster.write("train.py", "print(1)\n")
    words = ("submit", target, *(("--synthetic",) if target == "cifar" else ()), "--nodes", "2")
    done = cluster.type(*words)
    assert done.code == 0, done.err
    lines = (done.err + done.out).splitlines()
    assert len(lines) <= 10, lines
    assert re.fullmatch(r"\w+: 2 nodes x \d+ tasks? = \d+ ranks", lines[0])
    place = "  at slurmsite (HPCLAUNCH_SITE), node type cpu, partition batch, "
    assert lines[1].startswith(place), lines[1]
    assert re.fullmatch(r"at most \d\d:\d\d:\d\d, [\d.]+ node-hours?", lines[1].removeprefix(place))
    name = done.out.strip().rpartition("/")[2]
    assert f"  next: hpclaunch status {name}, hpclaunch logs -f {name}, or hpclaunch cancel {name}" in lines
    each = cluster.type(*words, "--dry-run", "-v").err
    for key, value in (("site", "slurmsite"), ("partition", "batch"), ("nodes", "2"), ("launcher", "srun")):
        assert re.search(rf"^  {key} +{value} +\(.+\)$", each, re.MULTILINE), each


def test_what_stays_true_of_a_site_is_named_at_the_first_submission_of_a_folder(cluster: Desk) -> None:
    site = cluster.project / "site_configs/slurmsite.yaml"
    site.write_text(site.read_text() + "third_party: [partitions.batch]\n")
    cluster.write("train.py", "print(1)\n")
    remark = "Found only in users' files, not on the centre's own pages: partitions.batch"
    shows = [remark in cluster.type("submit", "./train.py", *more).err for more in (("--dry-run",), (), (), ("-v",))]
    assert shows == [True, True, False, True]  # a dry run submits nothing
    other = cluster.project / "site_configs/other.yaml"
    other.write_text(site.read_text())
    assert remark in cluster.type("submit", "./train.py", "--site", "other", "--dry-run").err
    again = cluster.type("submit", "./train.py", "--accept-unverified", "--dry-run").err
    assert remark in again  # whoever relies on guesses is reminded of all
    listed = cluster.home / ".local/state/hpclaunch/shown-remarks"
    assert len(listed.read_text().split()) == 1
    listed.unlink()
    listed.mkdir()  # so that nothing can be read or written there
    assert [remark in cluster.type("submit", "./train.py").err for _ in range(2)] == [True, True]


def test_the_examples_of_the_help_are_accepted_as_they_stand(cluster: Desk) -> None:
    shown = cluster.type("submit", "--help").out
    every = cluster.type("submit", "--help-all").out
    assert len(shown.splitlines()) < len(every.splitlines()) and "--signal" in every and "--signal" not in shown
    examples = re.findall(r"^    hpclaunch (.+)$", shown, re.MULTILINE)
    assert len(examples) == 4
    cluster.write(
        "train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n"
    )
    cluster.write("simulate", "#!/bin/sh\necho done\n", mode=0o755)
    for example in examples:
        words = shlex.split(example)
        more = ["--dry-run", *(["--synthetic"] if words[1] == "cifar" else [])]
        done = cluster.type(words[0], *more, *words[1:])
        assert done.code == 0 and done.out.startswith("#!/bin/bash"), (example, done.err)


def test_a_walltime_of_the_settings_is_shown_with_its_file_in_the_summary(cluster: Desk) -> None:
    cluster.write("train.py", "print(1)\n")
    cluster.write(str(cluster.config / "settings.yaml"), "walltime: '00:07:00'\n")
    done = cluster.type("submit", "./train.py", "--dry-run")
    assert ", at most 00:07:00 (settings), " in done.err, done.err


@pytest.mark.parametrize("group", [(), ("runs",), ("search",)])
def test_a_group_has_one_help(desk: Desk, group: tuple[str, ...]) -> None:
    one, every = desk.type(*group, "--help"), desk.type(*group, "--help-all")
    assert (every.code, every.out) == (0, one.out)
    assert "Commands:" in one.out or "Start a run:" in one.out
