from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from hpclaunch.config.fileformat import Environment, Memory, PositiveInt, VariableName, Walltime, read
from hpclaunch.core.errors import InvalidFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    walltime: Walltime | None = None
    memory: Memory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    count: PositiveInt | Literal["auto"] = 1
    share: float = 0.5
    most: float | None = None
    inner: Inner = field(default_factory=Inner)
    many: dict[str, Inner] = field(default_factory=dict)
    listed: tuple[Inner, ...] = ()
    environment: Environment = field(default_factory=Environment)
    variables: dict[VariableName, str] = field(default_factory=dict)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def faults(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidFile) as caught:
        read(path, Outer)
    return str(caught.value).replace(str(path), "FILE")


def test_a_number_of_400_digits_is_a_fault(file: Path) -> None:
    assert "FILE: share: 1000" in faults(file, f"name: x\nshare: 1{400 * '0'}\n")


def test_a_number_that_may_be_left_out_may_be_a_whole_one(file: Path) -> None:
    file.write_text("name: x\nmost: 1\n")
    assert read(file, Outer).most == 1.0


def test_every_fault_is_told_at_once_with_its_key(file: Path) -> None:
    content = """
        counts: 2
        inner: {walltme: 5, memory: lots}
        many: {a: {walltime: never}}
        listed: [{memry: 1}]
        variables: {2bad: x}
    """
    text = faults(file, content)
    for message in (
        "FILE: name: this key is required, but missing",
        "FILE: counts: unknown key; did you mean 'count'?; allowed: ",
        "FILE: inner.walltme: unknown key; did you mean 'walltime'?; allowed: memory, walltime",
        "FILE: inner.memory: 'lots' is not an amount of memory",
        "FILE: many.a.walltime: 'never' is not a length of time",
        "FILE: listed.0.memry: unknown key; did you mean 'memory'?",
        "FILE: variables.2bad: '2bad' is not allowed here; allowed: letters",
    ):
        assert message in text


def test_a_key_that_the_program_sets_is_refused(file: Path) -> None:
    file.write_text("name: x\n")
    with pytest.raises(InvalidFile, match=r"file\.yaml: name: hpclaunch itself sets this key"):
        read(file, Outer, name="y")


@pytest.mark.parametrize(("text", "seconds"), [("30", 1800), ('"00:30:00"', 1800), ("1:30:00", 5400), ("2h", 7200)])
def test_a_walltime_needs_no_quotes(file: Path, text: str, seconds: int) -> None:
    file.write_text(f"name: x\ninner: {{walltime: {text}}}\n")
    assert read(file, Outer).inner.walltime == seconds


@pytest.mark.parametrize("value", ["true", "1.5", "[]", "{}"])
def test_a_walltime_is_text_or_a_whole_number(file: Path, value: str) -> None:
    assert "FILE: inner.walltime: " in faults(file, f"name: x\ninner: {{walltime: {value}}}\n")


@pytest.mark.parametrize(
    ("text", "value"), [("true", "true"), ("1", "1"), ("0.5", "0.5"), ('"TRUE"', "TRUE"), ("no", "no"), ('""', "")]
)
def test_a_variable_is_the_text_that_was_written(file: Path, text: str, value: str) -> None:
    file.write_text(f"name: x\nenvironment: {{variables: {{A: {text}}}}}\n")
    assert read(file, Outer).environment.variables == {"A": value}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ("{venv: a, conda: b}", "'venv' and 'conda' cannot be used together"),
        ('{setup: ["a\\nb"]}', "FILE: environment.setup.0: 'a\\nb' is not allowed here; allowed: text on one line"),
        (
            '{modules: [""]}',
            "FILE: environment.modules.0: '' is not allowed here; allowed: text on one line, not empty",
        ),
        ("{variables: {A-B: x}}", "FILE: environment.variables.A-B: 'A-B' is not allowed here; allowed: letters"),
        ("{variables: {A: [1]}}", "FILE: environment.variables.A: is not text or a number"),
    ],
)
def test_an_environment_that_a_script_cannot_say_is_refused(file: Path, environment: str, message: str) -> None:
    assert message in faults(file, f"name: x\nenvironment: {environment}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("count: 0", "FILE: count: 0 is "),
        ("count: many", "FILE: count: 'many' is not allowed; allowed: auto"),
        ("share: high", "FILE: share: 'high' is not a number"),
        ("share: true", "FILE: share: True is not a number"),
        ("many: [1]", "FILE: many: a list is not a mapping"),
        ("many: {1: {}}", "FILE: many.1: 1 is not text"),
        ("inner: 5", "FILE: inner: 5 is not a mapping"),
        ("inner:", "FILE: inner: nothing is not a mapping"),
        ("listed: {}", "FILE: listed: a mapping is not a list"),
        ("listed: [a]", "FILE: listed.0: 'a' is not a mapping"),
    ],
)
def test_a_value_of_another_kind_is_refused(file: Path, line: str, message: str) -> None:
    assert message in faults(file, f"name: x\n{line}\n")


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("count: auto", "count", "auto"),
        ("count: 3", "count", 3),
        ("share: 1", "share", 1.0),
        ("share: 0.25", "share", 0.25),
    ],
)
def test_a_value_of_its_kind_is_taken(file: Path, line: str, key: str, value: Any) -> None:
    file.write_text(f"name: x\n{line}\n")
    assert getattr(read(file, Outer), key) == value


def test_a_long_value_is_shown_by_its_first_80_characters(file: Path) -> None:
    assert f"FILE: inner: '{'x' * 78}' is not a mapping" in faults(file, f"name: x\ninner: {'x' * 78}\n")
    cut = f"FILE: inner: '{'x' * 79}… (1 more characters) is not a mapping"
    assert cut in faults(file, f"name: x\ninner: {'x' * 79}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    either: int | float = 0
    only: float | None = None


def test_a_whole_number_stays_one_where_both_kinds_are_allowed(file: Path) -> None:
    for text, either in (("2", 2), ("2.0", 2.0), ("0.5", 0.5)):
        file.write_text(f"either: {text}\nonly: 2\n")
        found = read(file, Numbers)
        assert (repr(found.either), repr(found.only)) == (repr(either), "2.0")


def test_a_record_of_very_many_faults_is_given_up_early(file: Path) -> None:
    text = faults(file, "name: x\n" + "".join(f"bad{number}: 1\n" for number in range(150)))
    assert text.count("unknown key") == 100
