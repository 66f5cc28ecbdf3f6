from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hpclaunch.config.fileformat import Environment
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.spec import JobSpec
from hpclaunch.render import CompiledTemplates, Roots, directive, oneline, override_of, quote, render, whole_library
from tests.builders import ROOTS, a_desk, a_job, a_site, everywhere, planned


def script(spec: JobSpec) -> str:
    return render(spec, ROOTS)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("plain-1.0/x=y", "plain-1.0/x=y"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("$HOME `x` \\", "'$HOME `x` \\'"),
        ("ü", "'ü'"),
        ("a\nb", "$'a\\nb'"),
        ("a\tb'\\", "$'a\\tb\\'\\\\'"),
        ("\x1b[0m\x7f", "$'\\x1b[0m\\x7f'"),
    ],
)
def test_row_17_a_value_is_one_word_on_one_line(text: str, word: str) -> None:
    assert quote(text) == word


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("01:00:00", "01:00:00"),
        ("gpu&hbm80g", "gpu&hbm80g"),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("it's", '"it\'s"'),
        ("a#b", '"a#b"'),
        ("a\\b", '"a\\\\b"'),
    ],
)
def test_a_directives_value_is_quoted_as_sbatch_reads_it(value: str, written: str) -> None:
    assert directive(value) == written


def test_a_comment_cannot_be_ended() -> None:
    assert oneline("a\n#SBATCH --nodes=99\r\x00") == "a #SBATCH --nodes=99  "


def test_row_19_the_shebang_is_first_and_directives_stand_before_the_first_command() -> None:
    spec = planned()
    lines = script(spec).splitlines()
    assert lines[0] == "#!/bin/bash"
    first_command = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    places = [n for n, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert len(places) == len(spec.directives)
    assert places == list(range(places[0], places[0] + len(places)))
    assert places[-1] < first_command


def test_row_24_the_ranks_get_what_the_script_sets() -> None:
    assert "export SLURM_EXPORT_ENV=ALL " in script(planned())


def test_row_17_variables_are_exported_by_lines_never_by_srun() -> None:
    job = a_job(environment=Environment(variables={"A": "a,b $HOME"}))
    text = script(planned(job=job))
    assert "export A='a,b $HOME'\n" in text
    assert "srun --export" not in text


def test_only_without_a_scheduler_the_script_keeps_the_walltime_itself() -> None:
    assert "walltime" not in script(planned(a_desk()))
    assert "\nbegin local signal_to=group walltime=60\n" in script(planned(a_desk(), walltime=60))
    assert "walltime" not in script(planned(walltime=60))


def test_the_same_spec_gives_the_same_bytes() -> None:
    assert script(planned()) == script(planned())


@pytest.mark.parametrize("site", [a_site(), a_desk()], ids=["slurm", "local"])
def test_a_script_ends_with_one_newline_and_has_no_blank_at_a_lines_end(site: object) -> None:
    text = script(planned(site))  # type: ignore[arg-type]
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert not [line for line in text.splitlines() if line != line.rstrip()]


@pytest.fixture
def mine(tmp_path: Path) -> Roots:
    return [("project", tmp_path), *ROOTS]


def test_a_users_own_template_wins_and_may_extend_the_bundled_one(tmp_path: Path, mine: Roots) -> None:
    own = tmp_path / "slurm.sh.j2"
    own.write_text(
        '{% extends "bundled/slurm.sh.j2" %}\n{% block environment %}\n# mine\n{{ super() }}{% endblock %}\n'
    )
    spec = planned()
    assert override_of(spec, mine) == own
    expected = script(spec).replace("# --- Environment\n", "# --- Environment\n# mine\n", 1)
    all_functions = hashlib.sha256(whole_library(ROOTS).encode()).hexdigest()  # it may call any of them
    assert render(spec, mine) == re.sub("(?m)^sha256=.*", f"sha256={all_functions}", expected)


def test_the_bundled_template_is_no_override(mine: Roots) -> None:
    assert override_of(planned(), mine) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{{ spec.nodez }}", "nodez"),
        ("line\n{% if %}", "slurm.sh.j2, line 2"),
        ('{% extends "nothing.j2" %}', "nothing.j2"),
        ("{{ spec.__class__.__mro__ }}", "unsafe"),
        ("{{ 1 // 0 }}", "division"),
        ("{{ spec.name | nofilter }}", "nofilter"),
        ("{{ spec.name.foo() }}", "foo"),
    ],
)
def test_a_template_that_cannot_be_used_is_named(tmp_path: Path, mine: Roots, content: str, message: str) -> None:
    (tmp_path / "slurm.sh.j2").write_text(content)
    with pytest.raises(InvalidFile, match=message):
        render(planned(), mine)


def test_a_template_that_is_not_text_is_named(tmp_path: Path, mine: Roots) -> None:
    (tmp_path / "slurm.sh.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidFile, match=r"slurm\.sh\.j2"):
        render(planned(), mine)


def test_under_torchrun_the_script_says_where_the_ranks_meet() -> None:
    lines = script(planned(everywhere(), launcher="torchrun", nodes=2)).splitlines()
    launch = next(n for n, line in enumerate(lines) if line.startswith("launch srun "))
    assert lines.index("set_rendezvous") < launch
    assert " torchrun " in lines[launch] + lines[launch + 1]


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "ibrun", "horovodrun"])
def test_nothing_of_torchruns_meeting_is_written_for_others(launcher: str) -> None:
    assert "rendezvous" not in script(planned(everywhere(), launcher=launcher))


def test_row_05_the_hosts_are_listed_for_horovodrun_on_several_nodes_only() -> None:
    assert "\nlist_hosts 4\n" in script(planned(everywhere(), launcher="horovodrun", nodes=2))
    assert "list_hosts" not in script(planned(everywhere(), launcher="horovodrun"))
    assert "list_hosts" not in script(planned(everywhere(), launcher="srun", nodes=2))


def test_row_24_where_all_of_the_shell_travels_along_the_script_unsets_what_misleads() -> None:
    text = script(planned(a_site(export="all")))
    assert "--export" not in text and "SLURM_EXPORT_ENV" not in text
    assert "unset PYTHONPATH PYTHONHOME " in text
    assert "\nunset " not in script(planned())


def is_compiled(cache: Path) -> bool:
    """Whether a folder of compiled templates has the bundled base template as it is."""
    path = ROOTS[-1][1] / "base.sh.j2"
    bucket = CompiledTemplates(cache).get_bucket(
        ImmutableSandboxedEnvironment(), "base.sh.j2", str(path), path.read_text()
    )
    return bucket.code is not None


def test_a_template_is_compiled_once(tmp_path: Path) -> None:
    cache = tmp_path / "hpclaunch" / "templates"
    assert render(planned(), ROOTS, cache=cache) == script(planned())
    assert is_compiled(cache)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert render(planned(), ROOTS, cache=cache) == script(planned())


def test_a_template_that_has_changed_is_compiled_again(tmp_path: Path, mine: Roots) -> None:
    for text in ("one", "two"):
        (tmp_path / "slurm.sh.j2").write_text(text)
        assert render(planned(), mine, cache=tmp_path / "templates") == text


@pytest.mark.parametrize("damage", [b"", b"j2", b"\0" * 400, None], ids=["empty", "short", "zeros", "cut"])
def test_a_damaged_compiled_template_is_compiled_again(tmp_path: Path, damage: bytes | None) -> None:
    render(planned(), ROOTS, cache=tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-50] if damage is None else damage)
    assert not is_compiled(tmp_path)
    assert render(planned(), ROOTS, cache=tmp_path) == script(planned())
    assert is_compiled(tmp_path)


def test_a_folder_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    render(planned(), ROOTS, cache=tmp_path)
    tmp_path.chmod(0o770)
    assert not is_compiled(tmp_path)
    assert render(planned(), ROOTS, cache=tmp_path) == script(planned())


def test_without_a_folder_that_can_be_used_a_template_is_compiled_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert render(planned(), ROOTS, cache=tmp_path / "file" / "templates") == script(planned())


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{{ 'x' * 10000000000 }}",
        "{{ '{:>10000000000}'.format(1) }}",
        "{{ 10 ** (10 ** 9) }}",
    ],
    ids=["time", "doubling", "product", "format", "power"],
)
def test_a_template_that_computes_without_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "slurm.sh.j2").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile, match=r"template slurm\.sh\.j2"):
        render(planned(), [("project", tmp_path), *ROOTS])
