"""What leaves the machine in a crate: which files are taken, which are left out or shortened, and what is replaced."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import hpclaunch
from hpclaunch.actions.sharing import crate_content as module
from hpclaunch.actions.sharing.crate_content import CrateContent, content_of, crate_files, facts_of, thinned_lines
from hpclaunch.actions.sharing.export import CrateOptions, export, next_command
from hpclaunch.actions.sharing.recorded_times import times_of
from hpclaunch.core.errors import HpclaunchError, InvalidRequest, Refused
from hpclaunch.core.inside import InsideFile
from hpclaunch.runs import Run, load, metric_events
from hpclaunch.runs.metric_events import Thinned
from tests import fabricated_runs as fabricated

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A finished run with code that hpclaunch copied, a model and a log."""
    path = fabricated.finished(tmp_path)
    for name, text in (("job.sh", "#!/bin/sh\n"), ("hpclaunch.sh", "x\n"), ("sampler.py", "x\n")):
        (path / name).write_text(text)
    for folder in ("code", "model", "logs"):
        (path / folder).mkdir(exist_ok=True)
    (path / "code/train.py").write_text("print(1)\n")
    (path / "model/weights.npz").write_bytes(b"w" * 100)
    (path / "logs/4711.out").write_text("epoch 1\n")
    environment(path, ["train.py"])
    return load(path)


def environment(path: Path, listed: object, **values: object) -> None:
    (path / "environment.json").write_text(json.dumps({"host": "login1", "code_files": listed, **values}))


def content(run: Run, *include: str, with_paths: bool = True) -> CrateContent:
    return content_of(run, with_paths, include)


def bytes_of(found: CrateContent, path: str) -> bytes:
    one = found.files[path]
    if isinstance(one, bytes):
        return one
    with one.open() as file:
        return file.read()


def test_a_crate_has_the_script_the_records_the_code_the_model_and_the_logs(run: Run) -> None:
    found = content(run)
    names = ("job.sh", "hpclaunch.sh", "sampler.py", "spec.json", "environment.json", "metrics.jsonl")
    assert set(found.files) == {*names, "code/train.py", "model/weights.npz", "logs/4711.out"}
    assert list(found.files) == sorted(found.files)
    assert (found.left_out, found.shortened) == ({}, {})
    assert isinstance(found.files["code/train.py"], InsideFile)


@pytest.mark.parametrize("name", ["server.pem", "password.txt", ".env", ".ssh/config", "id_rsa"])
def test_code_that_looks_like_a_secret_is_left_out_unless_it_is_asked_for(run: Run, name: str) -> None:
    (run.path / "code" / name).parent.mkdir(exist_ok=True)
    (run.path / "code" / name).write_text("x")
    environment(run.path, ["train.py", name])
    found = content(run)
    assert f"code/{name}" not in found.files and found.left_out[f"code/{name}"]
    assert f"code/{name}" in content(run, f"code/{name}").files


def test_a_private_key_under_an_innocent_name_is_left_out_everywhere(run: Run) -> None:
    environment(run.path, ["train.py", "notes"])
    for place in ("code/notes", "model/notes", "logs/4711.out", "hpclaunch.sh"):
        (run.path / place).write_text(KEY)
    found = content(run)
    assert {name for name, why in found.left_out.items() if why == "it holds a private key"} == {
        *("code/notes", "model/notes", "logs/4711.out", "hpclaunch.sh")
    }
    assert not set(found.left_out) & set(found.files)
    assert "code/notes" in content(run, "code/notes").files


def test_what_came_through_a_link_out_of_the_folder_stays_out_unless_it_is_named(run: Run) -> None:
    (run.path / "code/notes.md").write_text("x")
    environment(run.path, ["train.py", "notes.md"], code_files_from_outside=["notes.md"])
    why = "it was copied through a link that leads out of the folder of the code"
    assert content(run).left_out == {"code/notes.md": why}
    assert "code/notes.md" not in content(run, "code/*").files, "a wider pattern does not mean it"
    for name in ("code/notes.md", "notes.md"):
        found = content(run, name)
        assert "code/notes.md" in found.files and found.left_out == {}
    (run.path / "code/sub").mkdir()
    (run.path / "code/notes.md").rename(run.path / "code/sub/notes.md")
    environment(run.path, ["train.py", "sub/notes.md"], code_files_from_outside=["sub/notes.md"])
    for name in ("code/sub/notes.md", "notes.md"):
        assert "code/sub/notes.md" in content(run, name).files


def test_a_secret_is_found_wherever_it_stands_in_a_file(run: Run) -> None:
    token, far = "hf_" + "aB3" * 12, "x\n" * (module._PIECE - 8)
    late = bytearray(b"x\n" * module._PIECE)  # a text, with a control character where its second piece begins
    late[module._PIECE - module._OVERLAP + 10] = 1
    contents = {
        "far.txt": f"{far}{KEY}".encode(),
        "odd.txt": bytes(late) + token.encode(),
        "wide.txt": KEY.encode("utf-16"),
        "secrets.py": f"LOGIN = '{token}'\n".encode(),
        "far.ipynb": f"{far}{token}".encode(),
        "weights.bin": b"\1\2\3" * module._PIECE + KEY.encode(),
        "pickled.bin": b"\1\2\3" + token.encode(),
        "secrets.sh": b"export HF_TOKEN=$(cat ~/.token)\n",
    }
    for name, text in contents.items():
        (run.path / "code" / name).write_bytes(text)
    environment(run.path, ["train.py", *contents])
    found = content(run)
    assert set(found.left_out) == {f"code/{name}" for name in contents if name != "secrets.sh"}
    assert found.left_out["code/secrets.py"] == "it holds a token"


def test_a_token_in_a_log_is_hidden(run: Run) -> None:
    token = "hf_" + "aB3" * 12
    (run.path / "logs/4711.out").write_text(f"login with {token}.\n")
    assert bytes_of(content(run), "logs/4711.out") == b"login with (value not shown).\n"


def test_only_what_hpclaunch_copied_is_code(run: Run) -> None:
    (run.path / "code/later.csv").write_text("x")
    (run.path / "code/__pycache__").mkdir()
    (run.path / "code/__pycache__/x.pyc").write_text("x")
    found = content(run)
    assert found.left_out == {"code/later.csv": "hpclaunch did not copy it there"}
    assert "code/__pycache__/x.pyc" not in found.files
    assert "code/later.csv" in content(run, "code/later.csv").files
    environment(run.path, None)
    assert "code/later.csv" in content(run).files, "an older record has no list"


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret", "a/../../b"])
def test_a_list_of_code_that_names_a_file_elsewhere_is_refused(run: Run, name: str) -> None:
    environment(run.path, ["train.py", name])
    with pytest.raises(Refused, match="names a file outside of code/"):
        content(run)


def test_links_and_pipes_are_left_out_with_the_reason_even_if_asked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("theirs")
    (run.path / "code/link").symlink_to(tmp_path / "outside")
    os.mkfifo(run.path / "model/pipe")
    environment(run.path, ["train.py", "link"])
    assert content(run).left_out == {"code/link": "it is a link", "model/pipe": "it is a pipe"}
    with pytest.raises(Refused, match=r"no regular file in code/ or model/ of .* matches 'code/link'"):
        content(run, "code/link")


def test_a_file_of_another_owner_with_names_elsewhere_is_left_out_even_if_asked_for(run: Run, tmp_path: Path) -> None:
    """Whoever may write into a folder could give a stranger's file a name there."""
    if os.geteuid() != 0:
        pytest.skip("group root: gives files to other users")
    (tmp_path / "theirs").write_text("x")
    os.chown(tmp_path / "theirs", 4711, 4711)
    for name in ("code/theirs.txt", "model/theirs.txt"):
        os.link(tmp_path / "theirs", run.path / name)
    environment(run.path, ["train.py", "theirs.txt"])
    why = "it has another owner than the folder, and names elsewhere (hard links)"
    assert content(run).left_out == {"code/theirs.txt": why, "model/theirs.txt": why}
    with pytest.raises(Refused, match=r"matches 'code/theirs\.txt'"):
        content(run, "code/theirs.txt")


@pytest.mark.parametrize("folder", ["code", "model"])
def test_a_folder_that_is_a_link_stops_the_crate(run: Run, tmp_path: Path, folder: str) -> None:
    (run.path / folder).rename(tmp_path / "moved")
    (run.path / folder).symlink_to(tmp_path / "moved")
    with pytest.raises(Refused, match="is a link") as caught:
        content(run)
    assert caught.value.faults[0].where == str(run.path / folder)


def test_a_pattern_that_matches_nothing_is_refused(run: Run) -> None:
    with pytest.raises(Refused, match=r"matches '\*.csv'"):
        content(run, "code/train.py", "*.csv")


def test_several_patterns_may_match_one_file(run: Run) -> None:
    assert "code/train.py" in content(run, "code/train.py", "*.py", "model/*").files


def test_a_file_of_several_megabytes_is_copied_whole_with_its_sum(run: Run, tmp_path: Path) -> None:
    whole = b"a" * 2**20 + b"b" * 2**20 + b"c" * 7
    (run.path / "model/weights.npz").write_bytes(whole)
    export([run], "ro-crate", tmp_path / "out", CrateOptions())
    assert (tmp_path / "out/model/weights.npz").read_bytes() == whole
    graph = json.loads((tmp_path / "out/ro-crate-metadata.json").read_text())["@graph"]
    (entity,) = (one for one in graph if one["@id"] == "model/weights.npz")
    assert (entity["sha256"], entity["contentSize"]) == (hashlib.sha256(whole).hexdigest(), str(len(whole)))


def test_the_files_of_code_and_of_the_model_have_a_limit_together(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, limit in (("code", "MOST_BYTES"), ("model", "_LARGEST_MODEL")):
        monkeypatch.setattr(module, limit, 2**20)
        for name in ("a", "b", "c"):
            (run.path / folder / name).write_bytes(b"x" * (2**19 - 100))
    environment(run.path, ["train.py", "a", "b", "c"])
    found = content(run)
    assert set(found.left_out) == {"code/c", "model/c"}
    assert found.left_out["code/c"].startswith("it is large (0 MB): code has at most 1 MB")
    assert found.left_out["model/c"].endswith("the files of a model have at most 1 MB together")
    assert {"code/c", "model/c"} <= set(content(run, "code/c", "model/c").files)


def test_the_folder_of_hpclaunchs_library_in_the_code_is_left_away(run: Run) -> None:
    (run.path / "code/hpclaunch/training").mkdir(parents=True)
    (run.path / "code/hpclaunch/training/x.py").write_text("x")
    found = content(run)
    assert not [name for name in (*found.files, *found.left_out) if name.startswith("code/hpclaunch/")]
    (run.path / "code/hpclaunch/training").rename(run.path / "code/hpclaunch/own")
    assert "code/hpclaunch/own/x.py" in content(run).left_out, "a package of the user's with this name is code"


def test_a_large_log_has_its_beginning_and_its_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_LARGEST_TEXT", 2**21), ("_FIRST_OF_A_LOG", 2**20), ("_LAST_OF_A_LOG", 2**20)):
        monkeypatch.setattr(module, name, size)
    text = b"a" * 2**20 + b"b" * 7 + b"c" * 2**20
    (run.path / "logs/4711.out").write_bytes(text)
    found = content(run)
    kept = bytes_of(found, "logs/4711.out")
    assert kept == b"a" * 2**20 + b"\n[hpclaunch: 7 bytes of this log are left out here]\n" + b"c" * 2**20
    assert found.shortened == {"logs/4711.out": "its first 1 MB and last 1 MB of 2 MB"}
    (run.path / "logs/4711.out").write_bytes(text[7:])
    assert content(run).shortened == {}


def test_a_file_that_an_older_hpclaunch_did_not_write_is_not_missed(run: Run) -> None:
    for name in ("sampler.py", "environment.json", "metrics.jsonl", "logs/4711.out", "model/weights.npz"):
        (run.path / name).unlink()
    found = content(run)
    assert set(found.files) == {"job.sh", "hpclaunch.sh", "spec.json", "code/train.py"}
    assert (found.left_out, found.shortened) == ({}, {})


def test_a_large_record_is_left_out_and_a_large_file_of_metrics_thinned(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LARGEST_TEXT", 2**20)
    (run.path / "hpclaunch.sh").write_text("x" * (2**20 + 1))
    line = '{"event": "epoch", "epoch": 1, "loss": 1.0, "note": "' + "x" * 1000 + '"}\n'
    first, last = '{"event": "start", "world_size": 2}\n', '{"event": "end", "epochs": 1}'
    (run.path / "metrics.jsonl").write_text(first + line * 1100 + last)
    found = content(run)
    assert found.left_out == {"hpclaunch.sh": "it is large (1 MB)"}
    lines = bytes_of(found, "metrics.jsonl").splitlines(keepends=True)
    assert (lines[0].decode(), lines[-1].decode()) == (first, f"{last}\n")
    assert f"of its {1102:,} lines, the first, the last and some at even distances" in found.shortened["metrics.jsonl"]
    assert "metrics.jsonl" in found.changed
    assert thinned_lines(run)[1] == 1102
    for name in ("hpclaunch.sh", "metrics.jsonl"):
        (run.path / name).write_text("{}\n" + " " * (2**20 - 3))
    found = content(run)
    assert (found.left_out, found.shortened, found.changed) == ({}, {}, frozenset()), "a MiB is not too large"


def test_values_of_variables_and_folders_of_the_machine_are_replaced(run: Run) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec["environment"] = [["MY_TOKEN", "hunter2hunter2"], ["OMP_NUM_THREADS", "8"]]
    (run.path / "spec.json").write_text(json.dumps(spec))
    (run.path / "logs/4711.out").write_text(f"in {run.path}: hunter2hunter2\n")
    (run.path / "job.sh").write_text(f"cd {run.path}\nexport MY_TOKEN=hunter2hunter2\n")
    found = content(run, with_paths=False)
    for name in ("spec.json", "logs/4711.out", "job.sh"):
        assert b"hunter2" not in bytes_of(found, name) and name in found.changed
        assert str(run.path).encode() not in bytes_of(found, name)
    assert "OMP_NUM_THREADS" in bytes_of(found, "spec.json").decode()
    assert json.loads(bytes_of(found, "spec.json"))["environment"][1] == ["OMP_NUM_THREADS", "8"]
    assert "host" not in json.loads(bytes_of(found, "environment.json"))
    kept = content(run, with_paths=True)
    assert str(run.path).encode() in bytes_of(kept, "logs/4711.out") and b"hunter2" not in bytes_of(kept, "spec.json")
    assert json.loads(bytes_of(kept, "environment.json"))["host"] == "login1"
    assert bytes_of(kept, "job.sh") == f"cd {run.path}\nexport MY_TOKEN='(value not shown)'\n".encode()


def test_numbers_in_records_stay_whole(run: Run) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec |= {
        "walltime": 259200,
        "environment": [["LIMIT", "259200"], ["STEPS", "100000"]],
        "argv": ["--api-key", "abc"],
    }
    spec["parameters"] = [["rng_token", "1000000"]]
    (run.path / "spec.json").write_text(json.dumps(spec))
    lines = [{"step": 100000, "time": 1700100000.5, "key": 1000000}, {"event": "note", "said": "at 100000, 259200"}]
    damaged = '{"said": "259200'
    (run.path / "metrics.jsonl").write_text("\n".join([*map(json.dumps, lines), damaged]))
    environment(run.path, ["train.py"], limit=259200, told="259200")
    found = content(run, with_paths=False)
    public = json.loads(bytes_of(found, "spec.json"))
    assert (public["walltime"], public["argv"]) == (259200, ["--api-key", "(value not shown)"])
    first, second, last = bytes_of(found, "metrics.jsonl").decode().split("\n")
    assert first == json.dumps(lines[0]), "what has nothing to hide is as it was"
    assert json.loads(second) == {"event": "note", "said": "at (value not shown), (value not shown)"}
    assert last == '{"said": "(value not shown)'
    own = json.loads(bytes_of(found, "environment.json"))
    assert (own["limit"], own["told"]) == (259200, "(value not shown)")


@pytest.mark.parametrize("text", ['{"a": "hunter2hunter2", "a": 1}', "[" * 900 + '"hunter2hunter2"' + "]" * 900])
def test_no_odd_json_keeps_a_value(run: Run, text: str) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, "environment": [["MY_TOKEN", "hunter2hunter2"]]}))
    (run.path / "metrics.jsonl").write_text(f"{text}\n")
    assert b"hunter2" not in bytes_of(content(run), "metrics.jsonl")


def test_an_ordinary_value_leaves_the_program_in_the_crate(run: Run) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    variables = [["MODEL", "resnet50"], ["DATASET", "imagenet1k"], ["DATA", "/scratch/data"]]
    (run.path / "spec.json").write_text(json.dumps({**spec, "environment": variables}))
    (run.path / "code/train.py").write_text("resnet50('/scratch/data', 'imagenet1k')\n")
    (run.path / "model/tokens.txt").write_text("<blk> 0\n")
    found = content(run)
    assert found.left_out == {} and {"code/train.py", "model/tokens.txt"} <= set(found.files)


def test_what_has_no_value_to_hide_is_as_it_was(run: Run) -> None:
    (run.path / "metrics.jsonl").write_text('{"event":"start"}\n')
    (run.path / "spec.json").write_text('{"name":  "x"}')
    for name in ("hpclaunch.sh", "sampler.py"):  # hpclaunch's own, whose variables are no secrets
        (run.path / name).write_text("export OWN=of_the_library\n")
    found = content(run)
    assert found.changed == frozenset()
    for name in ("metrics.jsonl", "spec.json", "hpclaunch.sh", "sampler.py", "job.sh"):
        assert bytes_of(found, name) == (run.path / name).read_bytes(), name


def test_code_with_the_value_of_a_variable_is_left_out_and_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF", "secretword")
    spec = json.loads((run.path / "spec.json").read_text())
    variables = [["DB_URL", "postgres://u:leak@h/db"], ["WANDB_MODE", "offline"]]
    (run.path / "spec.json").write_text(json.dumps({**spec, "environment": variables, "secrets": ["HF"]}))
    far = " " * (module._PIECE - 7)
    contents = {
        "url.json": json.dumps("postgres://u:leak@h/db"),
        "far.txt": f"{far}postgres://u:leak@h/db",
        "word.txt": "a secretword",
        "mode.py": "mode = 'offline'",
        "job.yaml": "environment: {variables: {OTHER: x}}",
        "sub/hpclaunch.yaml": "environment: {variables: {WANDB_MODE: offline}}",
        "key/job.yaml": f"summary: x\n# {KEY}",
        "said/job.yaml": "summary: a secretword",
        "ok/job.yaml": "environment: {variables: {OMP_NUM_THREADS: 4}}",
    }
    for name, text in contents.items():
        (run.path / "code" / name).parent.mkdir(exist_ok=True)
        (run.path / "code" / name).write_text(text)
    environment(run.path, ["train.py", *contents])
    found = content(run)
    value = "it holds the value of a variable or a secret of the run"
    assert found.left_out == {
        **{f"code/{name}": value for name in ("url.json", "far.txt", "word.txt", "said/job.yaml")},
        "code/key/job.yaml": "it holds a private key",
        "code/job.yaml": "it holds the values of variables (OTHER)",
        "code/sub/hpclaunch.yaml": "it holds the values of variables (WANDB_MODE)",
    }
    assert {"code/mode.py", "code/ok/job.yaml"} <= set(found.files)
    assert {"code/job.yaml", "code/word.txt"} <= set(content(run, "job.yaml", "code/word.txt").files)


def test_a_file_of_settings_that_is_too_large_to_read_is_left_out(run: Run) -> None:
    (run.path / "code/job.yaml").write_text("#" * 2**19)
    environment(run.path, ["train.py", "job.yaml"])
    assert content(run).left_out["code/job.yaml"].startswith("it may set variables, and cannot be read: is larger")


def test_the_crate_lists_every_file_with_what_was_left_out_in_its_readme(run: Run) -> None:
    (run.path / "code/later.csv").write_text("x")
    found = content(run)
    files = crate_files(found, facts_of(run, "MIT", True))
    assert set(files) == {*found.files, "ro-crate-metadata.json", "README.md"}
    readme, metadata = files["README.md"], files["ro-crate-metadata.json"]
    assert isinstance(readme, bytes) and b"code/later.csv" in readme and b"hpclaunch did not copy it" in readme
    assert isinstance(metadata, bytes)
    described = {one["@id"] for one in json.loads(metadata)["@graph"]}
    assert {"code/train.py", "model/weights.npz", "README.md"} <= described


def test_the_facts_of_a_run_need_its_spec_and_its_script(run: Run) -> None:
    facts = facts_of(run, "MIT", True)
    assert (facts.label, facts.state, facts.license, facts.site) == (run.id, "COMPLETED", "MIT", run.site)
    assert facts.began and facts.ended > facts.began
    (run.path / "job.sh").unlink()
    with pytest.raises(Refused, match=r"has no spec.json and job.sh that can be read"):
        facts_of(run, "", True)


@pytest.mark.parametrize(
    ("form", "crate", "words"),
    [
        ("zip", CrateOptions(), "unknown format 'zip'"),
        ("mlflow", CrateOptions(license="MIT"), "belongs to an RO-Crate"),
        ("tensorboard", CrateOptions(with_paths=True), "belongs to an RO-Crate"),
        ("tensorboard", CrateOptions(include=("x",)), "belongs to an RO-Crate"),
        ("ro-crate", CrateOptions(license="not one"), "'not one' is neither"),
    ],
)
def test_an_export_that_makes_no_sense_writes_nothing(
    run: Run, tmp_path: Path, form: str, crate: CrateOptions, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        export([run], form, tmp_path / "out", crate)
    assert not (tmp_path / "out").exists()


def exported(found: Sequence[Run], form: str, target: Path) -> list[str]:
    export(found, form, target, CrateOptions())
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def test_only_ended_runs_are_exported_into_a_new_or_an_empty_folder(run: Run, tmp_path: Path) -> None:
    for state in ("RUNNING", "PENDING", "UNKNOWN", "SUBMITTING"):
        with pytest.raises(Refused, match=f"has not ended: its last known state is {state}") as caught:
            export([run, replace(run, state=state)], "mlflow", tmp_path / "out", CrateOptions())
        assert [fault.next for fault in caught.value.faults] == [f"hpclaunch wait {run.label}"]
    with pytest.raises(InvalidRequest, match="an RO-Crate describes one run"):
        export([run, run], "ro-crate", tmp_path / "out", CrateOptions())
    array = load(fabricated.array(tmp_path / "sweep"))
    with pytest.raises(Refused, match=r"is an array of .* runs, and an RO-Crate describes one"):
        export([array], "ro-crate", tmp_path / "out", CrateOptions())
    (tmp_path / "out").mkdir()
    assert "code/train.py" in exported([run], "ro-crate", tmp_path / "out")
    with pytest.raises(Refused, match="exists already"):
        export([run], "tensorboard", tmp_path / "out", CrateOptions())
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="exists already, and is no folder"):
        export([run], "tensorboard", tmp_path / "file", CrateOptions())
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with pytest.raises(Refused, match="exists already"):
        export([run], "tensorboard", tmp_path / "dangling", CrateOptions())
    before = _umask()
    assert exported([run], "tensorboard", tmp_path / "new/deep")
    assert _umask() == before, "it is the whole process's"
    assert exported([run], "tensorboard", tmp_path / "several/new/folders")
    assert sorted(os.listdir(tmp_path / "new")) == ["deep"], "no draft is left"
    assert (tmp_path / "new/deep").stat().st_mode & 0o077 == 0o077 & ~_umask() & 0o755


def test_an_export_is_as_closed_as_the_user_wants_new_files_to_be(run: Run, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert exported([run], "tensorboard", tmp_path / "own")
        assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_an_export_that_cannot_be_written_leaves_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HpclaunchError):
        export([run], "tensorboard", tmp_path / "file/out", CrateOptions())
    (run.path / "metrics.jsonl").write_text("")
    with pytest.raises(Refused, match="wrote no numbers"):
        export([run], "tensorboard", tmp_path / "out", CrateOptions())
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith((".out", "out"))) == []


def test_a_full_disk_leaves_no_part_of_an_export(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(old: object, new: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Refused, match="No space left"):
        export([run], "ro-crate", tmp_path / "out", CrateOptions())
    assert sorted(os.listdir(tmp_path)) == before


def test_a_run_directory_with_a_link_is_not_exported(run: Run, tmp_path: Path) -> None:
    (run.path / "spec.json").rename(tmp_path / "spec.json")
    (run.path / "spec.json").symlink_to(tmp_path / "spec.json")
    for form in ("tensorboard", "mlflow", "ro-crate"):
        with pytest.raises(Refused, match="is a link"):
            export([run], form, tmp_path / "out", CrateOptions())


def test_the_parameters_of_mlflow_hide_the_values_of_variables(run: Run, tmp_path: Path) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec["environment"] = [["MY_TOKEN", "hunter2hunter2"]]
    spec["parameters"] = [["note", "hunter2hunter2"], ["epochs", "3"]]
    (run.path / "spec.json").write_text(json.dumps(spec))
    names = exported([load(run.path)], "mlflow", tmp_path / "out")
    notes = {name: (tmp_path / "out" / name).read_text() for name in names if "/params/" in name}
    assert any(name.endswith("/epochs") and text == "3" for name, text in notes.items())
    assert "hunter2" not in "".join(notes.values())


def test_the_facts_of_a_run_are_what_its_record_says(run: Run) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec |= {"command": ["python", "train.py", f"--data={run.path}/x"], "layout": {"nodes": 2, "tasks_per_node": 4}}
    spec |= {"parameters": [["nodes", "many"], ["epochs", "3"]], "data": None}
    (run.path / "spec.json").write_text(json.dumps(spec))
    facts = facts_of(replace(load(run.path), state="FAILED", exit_code="7:0", reason=""), "", False)
    assert (facts.error, facts.command) == ("exit code 7:0", "python train.py --data=RUN/x")
    assert (facts.parameters, facts.layout) == ({"nodes": "many", "epochs": "3"}, {"tasks_per_node": "4"})
    assert (facts.data, facts.replaced["RUN"]) == (None, "the run directory")
    assert facts_of(replace(run, reason=f"lost {run.path}"), "", False).error == "lost RUN"
    assert facts_of(replace(run, exit_code="", reason=""), "", False).error == ""
    assert facts_of(run, "", True).replaced == {}


def test_no_fact_has_the_value_of_a_variable(run: Run) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    spec |= {"environment": [["MY_TOKEN", "hunter2hunter2"]], "command": ["train.py", "--key=hunter2hunter2"]}
    (run.path / "spec.json").write_text(json.dumps({**spec, "parameters": [["note", "hunter2hunter2"]]}))
    facts = facts_of(replace(load(run.path), state="FAILED", reason="refused hunter2hunter2"), "", True)
    hidden = "(value not shown)"
    assert (facts.command, facts.error) == (f"train.py --key={hidden}", f"refused {hidden}")
    assert facts.parameters == {"note": hidden}


@pytest.mark.parametrize(
    "command",
    [
        ["train.py", "--api-key=s3cretw0rd"],
        ["train.py", "--api-key", "s3cretw0rd"],
        ["train.py", "api_key=s3cretw0rd"],
        ["train.py", "--api-key=s3cretw0rd", "--epochs=3"],
        ["train.py", "--epochs", "3", "--api-key", "s3cretw0rd", "--verbose"],
    ],
)
def test_the_value_of_an_option_for_a_secret_is_hidden_in_the_log_wherever_the_option_stands(
    run: Run, command: list[str]
) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, "command": command}))
    (run.path / "logs/4711.out").write_text("login with s3cretw0rd, 3 epochs\n")
    assert bytes_of(content(run), "logs/4711.out") == b"login with (value not shown), 3 epochs\n"


def test_a_damaged_list_of_secrets_names_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("H", "epoch_1x")
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "logs/4711.out").write_text("epoch_1x\n")
    for secrets, shown in (("HF", b"epoch_1x\n"), (["H"], b"(value not shown)\n")):
        (run.path / "spec.json").write_text(json.dumps({**spec, "secrets": secrets}))
        assert bytes_of(content(run), "logs/4711.out") == shown


def test_logs_are_what_the_script_and_its_ranks_printed(run: Run) -> None:
    for name in ("rank-0.out", "rank-1.err", "notes.txt"):
        (run.path / "logs" / name).write_text("x\n")
    assert {name for name in content(run).files if name.startswith("logs/")} == {"logs/4711.out", "logs/rank-0.out"}


def test_a_commit_is_told_without_its_mark_of_changes_to_mlflow(run: Run, tmp_path: Path) -> None:
    changed = replace(run, git="0123abc+changes")
    names = exported([changed], "mlflow", tmp_path / "out")
    tags = {name.rpartition("/")[2]: (tmp_path / "out" / name).read_text() for name in names if "/tags/" in name}
    assert (tags["mlflow.source.git.commit"], tags["git"]) == ("0123abc", "0123abc+changes")
    assert (tags["run_dir"], tags["site"], tags["job_id"]) == (str(run.path), run.site, run.job_id)


@pytest.mark.parametrize(
    ("need", "told", "data"),
    [
        ({"name": "mnist", "folder": "/d"}, {"fingerprint": "f1"}, ("mnist", "f1")),
        ({"name": "mnist"}, None, ("mnist", "")),
        (None, {"fingerprint": "f1"}, ("data of cifar", "f1")),
        ({}, {}, None),
        ("mnist", "f1", None),
    ],
)
def test_the_data_set_is_named_with_its_fingerprint(run: Run, need: object, told: object, data: object) -> None:
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, "data": need}))
    (run.path / "metrics.jsonl").write_text(json.dumps({"event": "start", "data": told}) + "\n")
    assert facts_of(replace(load(run.path), name="cifar"), "", True).data == data


def test_the_fingerprint_of_the_data_is_found_at_the_beginning_of_long_metrics(run: Run) -> None:
    start = json.dumps({"event": "start", "data": {"fingerprint": "f1"}})
    line = json.dumps({"event": "own", "note": "x" * 2**19})
    before = json.dumps({"event": "own", "data": {"fingerprint": "of another"}})
    (run.path / "metrics.jsonl").write_text("\n".join([before, start, *[line] * 34, ""]))
    spec = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**spec, "data": {"name": "mnist"}}))
    assert facts_of(load(run.path), "", True).data == ("mnist", "f1")
    assert len(hpclaunch.run(run.path).metrics("own")) == 35 and len(hpclaunch.run(run.path).metrics("start")) == 1


def test_a_run_that_never_began_has_no_beginning(run: Run) -> None:
    (run.path / "attempts").rename(run.path / "away")
    facts = facts_of(load(run.path), "", True)
    assert facts.began == "" and facts.ended


def test_a_changed_file_is_described_as_changed_and_by_its_own_sum(run: Run) -> None:
    (run.path / "logs/4711.out").write_text(f"in {run.path}\n")
    files = crate_files(content(run, with_paths=False), facts_of(run, "", False))
    metadata = files["ro-crate-metadata.json"]
    assert isinstance(metadata, bytes) and next(iter(files)) == "ro-crate-metadata.json"
    described = {one["@id"]: one for one in json.loads(metadata)["@graph"]}
    log = files["logs/4711.out"]
    assert isinstance(log, bytes)
    text = json.dumps(described["logs/4711.out"])
    assert hashlib.sha256(log).hexdigest() in text and str(len(log)) in text
    assert "folders are replaced by names" in text
    assert "folders are replaced by names" not in json.dumps(described["code/train.py"])
    assert list(files)[1:] == sorted(list(files)[1:])


def test_the_files_of_a_crate_are_copies_and_have_the_sums_in_its_metadata(run: Run, tmp_path: Path) -> None:
    done = export([run], "ro-crate", tmp_path / "out", CrateOptions(license="MIT"))
    assert (done.runs, done.notes) == ((run,), ())
    described = {one["@id"]: one for one in json.loads((tmp_path / "out/ro-crate-metadata.json").read_text())["@graph"]}
    for name in ("code/train.py", "model/weights.npz", "README.md"):
        content = (tmp_path / "out" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() in json.dumps(described[name])
        assert name == "README.md" or content == (run.path / name).read_bytes()


def test_what_is_not_in_a_crate_is_told_in_the_order_of_names(run: Run, tmp_path: Path) -> None:
    for name in ("b", "a"):
        (run.path / "code" / name).touch()
    done = export([run], "ro-crate", tmp_path / "out", CrateOptions())
    why = "hpclaunch did not copy it there"
    assert done.notes == (f"not in the crate: code/a: {why}", f"not in the crate: code/b: {why}")


def test_a_link_among_the_logs_stops_only_the_crate(run: Run, tmp_path: Path) -> None:
    (run.path / "logs/x.out").symlink_to("/etc/hostname")
    with pytest.raises(Refused, match="is a link"):
        export([run], "ro-crate", tmp_path / "out", CrateOptions())
    assert exported([run], "tensorboard", tmp_path / "events")


def test_one_link_in_the_model_leaves_only_that_file_out_of_the_crate(run: Run, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("theirs")
    (run.path / "model/latest.npz").symlink_to("weights.npz")
    (run.path / "model/theirs").symlink_to(tmp_path / "outside")
    done = export([run], "ro-crate", tmp_path / "out", CrateOptions())
    assert done.notes == tuple(f"not in the crate: model/{name}: it is a link" for name in ("latest.npz", "theirs"))
    assert sorted(os.listdir(tmp_path / "out/model")) == ["weights.npz"]
    assert "- `model/theirs`: it is a link" in (tmp_path / "out/README.md").read_text()


@pytest.mark.parametrize(
    ("crate", "where"),
    [
        (CrateOptions(license="MIT"), "--license"),
        (CrateOptions(with_paths=True), "--with-paths"),
        (CrateOptions(include=("x",)), "--include"),
    ],
)
def test_an_option_of_a_crate_is_named(run: Run, tmp_path: Path, crate: CrateOptions, where: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        export([run], "mlflow", tmp_path / "out", crate)
    assert caught.value.faults[0].where == where


def test_the_first_and_the_last_line_of_every_kind_stay_in_thinned_metrics(run: Run) -> None:
    lines = [
        {"event": "start"},
        *({"event": "epoch", "epoch": n} for n in range(5)),
        {"event": "own", "n": 1},
        {"n": 2},
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept, seen = thinned_lines(run)
    assert (seen, [json.loads(line) for line in kept]) == (8, lines)
    (run.path / "metrics.jsonl").write_text("")
    assert thinned_lines(run) == ([], 0)


def test_thinned_metrics_have_both_ends_of_every_kind_and_whole_lines(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Thinned", lambda: Thinned(most=4))
    lines = [f'{{"event":"{kind}","n":{n}}}\n' for n in range(100) for kind in ("checkpoint", "epoch", "own")]
    (run.path / "metrics.jsonl").write_text("".join(lines))
    kept, seen = thinned_lines(run)
    assert seen == 300 and len(kept) < 20
    assert [lines.index(line.decode()) for line in kept] == sorted(lines.index(line.decode()) for line in kept)
    assert {line.decode() for line in kept} >= {*lines[:3], *lines[-3:]}


@pytest.mark.parametrize(
    ("form", "place", "command"),
    [
        ("tensorboard", "out", "tensorboard --logdir out"),
        ("mlflow", "my runs", "mlflow ui --backend-store-uri 'my runs'"),
        ("tensorboard", "a;b", "tensorboard --logdir 'a;b'"),
        ("ro-crate", "out", ""),
    ],
)
def test_the_command_that_shows_an_export_can_be_typed(form: str, place: str, command: str) -> None:
    assert next_command(form, Path(place)) == command


def test_of_an_array_each_run_is_exported_and_named(tmp_path: Path) -> None:
    array = load(fabricated.array(tmp_path / "sweep"))
    done = export([array], "mlflow", tmp_path / "out", CrateOptions())
    assert [one.index for one in done.runs] == list(range(24))


def test_several_runs_and_an_array_are_exported_together(run: Run, tmp_path: Path) -> None:
    other = load(fabricated.finished(tmp_path / "second"))
    other = replace(other, path=other.path.rename(other.path.with_name("other-run")))
    for form in ("tensorboard", "mlflow"):
        done = export([run, other], form, tmp_path / form, CrateOptions())
        assert done.runs == (run, other)
    assert {name.partition("/")[0] for name in exported([run, other], "tensorboard", tmp_path / "again")} == {
        *(run.id, other.id)
    }


@pytest.mark.parametrize("form", ["tensorboard", "mlflow"])
def test_what_an_export_lacks_of_long_metrics_is_told(
    run: Run, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export([run], form, tmp_path / "whole", CrateOptions()).notes == ()
    monkeypatch.setattr(metric_events, "Thinned", lambda *_: Thinned(most=4))
    (note,) = export([run], form, tmp_path / "part", CrateOptions()).notes
    assert note.startswith(f"{run.label}: ") and f"of {fabricated.EPOCHS} epochs" in note


def test_a_run_without_numbers_stops_no_export_of_others(run: Run, tmp_path: Path) -> None:
    silent = load(fabricated.failed(tmp_path / "second"))
    (silent.path / "metrics.jsonl").unlink(missing_ok=True)
    silent = replace(silent, path=silent.path.rename(silent.path.with_name("silent-run")))
    names = exported([silent, run], "tensorboard", tmp_path / "out")
    assert names and all(name.startswith(f"{run.id}/") for name in names)
    with pytest.raises(Refused, match="silent-run wrote no numbers") as caught:
        export([silent], "tensorboard", tmp_path / "none", CrateOptions())
    assert len(caught.value.faults) == 1 and caught.value.faults[0].next == "hpclaunch logs silent-run"


def test_mlflow_gets_the_times_of_the_run_in_milliseconds(run: Run, tmp_path: Path) -> None:
    names = exported([run], "mlflow", tmp_path / "out")
    (meta,) = (name for name in names if name.count("/") == 2 and name.endswith("/meta.yaml"))
    lines = (tmp_path / "out" / meta).read_text().splitlines()
    began, ended = (int(1000 * when) for when in times_of(run))
    assert {f"start_time: {began}", f"end_time: {ended}"} <= set(lines) and began < ended
