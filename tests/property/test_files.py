"""Whatever a file holds, reading it gives a value or InvalidFile, never another exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hpclaunch.config.catalog import JOB, SITE, bundled
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.fileformat import read
from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import InvalidFile

BUNDLED = [
    path.read_bytes() for path in [*bundled(SITE.folder).glob("*.yaml"), *bundled(JOB.folder).glob("*/job.yaml")]
]
PARAMETERS = [path.read_bytes() for path in bundled(JOB.folder).glob("*/parameters.json")]
KINDS: list[tuple[type, dict[str, str]]] = [
    (Site, {"name": "x"}),
    (Job, {"name": "x", "folder": "/x"}),
    (Settings, {}),
]
KEYS = [key for kind, _ in KINDS for key in kind.__dataclass_fields__]  # type: ignore[attr-defined]
KEYS += ["from", "epochs", "default", "type"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(["auto", "1:00:00", "~", "images", "training", "parameters.json"]),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(KEYS), scalars), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def read_as_everything(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    for kind, extra in KINDS:
        try:
            read(file, kind, **extra)
        except InvalidFile as error:
            assert error.faults
            # Parameters may stand in a file of their own, beside it.
            assert all(fault.where.startswith(f"{file.parent}/") for fault in error.faults)


@given(st.binary(max_size=200))
@example(b"\xff")
@example(b"? [a]\n: 1\n")
@example(b"{[]: 1}")
@example(b"a: !!binary x\n")
@example(b"a: !!int x\n")
@example(b"a: !!float x\n")
@example(b"!!set {a}\n")
@example(b"<<: {a: 1}\n")
@example(b"<<: x\n")
@example(b"a: " + b"9" * 5000)
@example(b"a: 1e999")
@example(b"%YAML 9.9\n---\na: 1\n")
@example(b"\xef\xbb\xbfa: 1\n")
@example(b"a: !!timestamp 2001-99-99\n")
@example(b"a: !!str\n")
@example(b"a: !!null x\n")
@example(b"a: !!bool x\n")
def test_any_bytes(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        assert isinstance(read_yaml(file), dict)
    except InvalidFile as error:
        assert error.faults
    read_as_everything(file, content)


@given(documents)
def test_any_document(file: Path, document: Any) -> None:
    read_as_everything(file, yaml.safe_dump(document).encode())


@given(
    st.sampled_from(BUNDLED), st.integers(min_value=0), st.binary(max_size=5), st.integers(min_value=0, max_value=20)
)
def test_a_damaged_bundled_file(file: Path, content: bytes, place: int, inserted: bytes, removed: int) -> None:
    at = place % (len(content) + 1)
    read_as_everything(file, content[:at] + inserted + content[at + removed :])


@given(
    st.sampled_from(PARAMETERS), st.integers(min_value=0), st.binary(max_size=5), st.integers(min_value=0, max_value=20)
)
def test_a_damaged_file_of_parameters(file: Path, content: bytes, place: int, inserted: bytes, removed: int) -> None:
    at = place % (len(content) + 1)
    file.with_name("parameters.json").write_bytes(content[:at] + inserted + content[at + removed :])
    read_as_everything(file, b"{summary: x, script: a.py, parameters: {from: parameters.json}}")


@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), scalars.filter(lambda key: key is not None)), documents))
def test_any_parameters(file: Path, written: dict[Any, Any]) -> None:
    content = {"summary": "x", "script": "a.py", "parameters": {"from": "images", **written}}
    read_as_everything(file, yaml.safe_dump(content).encode())
