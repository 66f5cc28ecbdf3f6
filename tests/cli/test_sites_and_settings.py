"""Which site: flag > HPCLAUNCH_SITE > settings > detected > local; and one's own files win and are announced."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from tests.cli.conftest import Desk

BUNDLED = {"local", "perlmutter", "testcluster"}


def chosen(desk: Desk, *words: str, **variables: str) -> str:
    done = desk.type("submit", "cifar", "--synthetic", "--dry-run", "-v", *words, **variables)
    assert done.code == 0, done.err
    return next(" ".join(line.split()) for line in done.err.splitlines() if line.split()[0] == "site")


@pytest.fixture
def torn(desk: Desk) -> Desk:
    """Every way to choose a site says another one."""
    desk.write("train.py", "")
    for name in ("flagged", "variable", "settled"):
        desk.write(
            f"site_configs/{name}.yaml",
            "title: x\nscheduler: local\ndefaults: {node_type: a}\nnode_types: {a: {title: x, cores_per_node: 1}}\n"
            "launchers: {default: horovodrun, options: {horovodrun: {}}}\n",
        )
    (desk.root / "slurm.conf").write_text("ClusterName=hpctest\n")
    desk.write(str(desk.config / "settings.yaml"), "site: settled\n")
    desk.environment["HPCLAUNCH_SITE"] = "variable"
    return desk


def test_the_first_who_says_something_chooses_the_site(torn: Desk) -> None:
    runs = {"HPCLAUNCH_RUNS_DIR": "/home/nobody/runs"}
    assert chosen(torn, "--site", "flagged") == "site flagged (--site)"
    assert chosen(torn) == "site variable (HPCLAUNCH_SITE)"
    torn.environment.pop("HPCLAUNCH_SITE")
    assert chosen(torn) == "site settled (settings)"
    (torn.config / "settings.yaml").unlink()
    assert chosen(torn, **runs) == "site testcluster (detected)"
    assert chosen(torn, "--account", "m1", NERSC_HOST="perlmutter", **runs) == "site perlmutter (detected)"
    (torn.root / "slurm.conf").unlink()
    assert chosen(torn) == "site local (no cluster was detected)"


def test_ones_own_site_wins_over_the_bundled_one_and_is_announced(torn: Desk) -> None:
    own = torn.project / "site_configs/local.yaml"
    (torn.project / "site_configs/flagged.yaml").rename(own)
    done = torn.type("submit", "./train.py", "--dry-run", "--site", "local")
    assert f"warning: the site is the project's own: {own}" in done.err


def test_ones_own_template_wins_and_is_announced(desk: Desk) -> None:
    desk.write("train.py", "")
    own = desk.config / "templates/local.sh.j2"
    desk.write(str(own), '{% extends "bundled/local.sh.j2" %}{% block epilogue %}\n# mine\n{% endblock %}\n')
    done = desk.type("submit", "./train.py", "--dry-run", "--site", "local")
    assert f"warning: the template {own} replaces the bundled one" in done.err
    assert "\n# mine\n" in done.out


def test_a_faulty_template_is_named(desk: Desk) -> None:
    desk.write("train.py", "")
    desk.write("templates/local.sh.j2", "{{ spec.nothing }}")
    done = desk.type("submit", "./train.py", "--dry-run", "--site", "local")
    assert (done.code, "template local.sh.j2" in done.err) == (1, True)


def test_a_faulty_settings_file_is_told_with_every_fault(desk: Desk) -> None:
    desk.write(str(desk.config / "settings.yaml"), "sites: {a: {acount: x}}\nqso: y\n")
    done = desk.type("submit", "cifar", "--dry-run")
    assert done.code == 1
    assert "sites.a.acount: unknown key; did you mean 'account'?" in done.err
    assert "qso: unknown key; did you mean 'qos'?" in done.err


def test_account_partition_and_qos_of_the_settings(desk: Desk) -> None:
    desk.write(str(desk.config / "settings.yaml"), "sites: {perlmutter: {account: m1234_g, qos: debug}}\n")
    done = desk.type("submit", "cifar", "--synthetic", "--dry-run", "--site", "perlmutter", "--runs-dir", "/home/x")
    assert {"#SBATCH --account=m1234_g", "#SBATCH --qos=debug"} <= set(done.out.split("\n"))


def test_everything_that_settings_files_choose_is_shown_with_its_file(desk: Desk) -> None:
    desk.write(str(desk.config / "settings.yaml"), "mail: {to: me@here.org, events: [END]}\nsbatch: [--nice=100]\n")
    desk.write("hpclaunch.yaml", "restarts: 3\nsignal: USR1@300\nrank_logs: 4\nsamples: false\nremove: [--wait]\n")
    desk.write("train.py", "print(1)\n")
    queued = desk.type("submit", "./train.py", "--dry-run", "--site", "testcluster").err
    project = {"restarts 3", "signal USR1@300", "rank logs 4", "samples no", "removed --wait"}
    chosen = {f"{choice} (project hpclaunch.yaml)" for choice in project}
    chosen |= {"mail END to me@here.org (settings)", "sbatch --nice=100 (settings)"}
    assert not [choice for choice in chosen if choice not in queued], queued
    each = desk.type("submit", "./train.py", "--dry-run", "--site", "testcluster", "-v").err
    assert chosen <= {" ".join(line.split()) for line in each.splitlines()}
    here = desk.type("submit", "./train.py", "--dry-run", "--site", "local").err
    assert "mail END" not in here and "sbatch --nice" not in here and "rank logs 4" in here
    (desk.project / "hpclaunch.yaml").unlink()
    typed = desk.type("submit", "./train.py", "--dry-run", "--site", "testcluster", "--restarts", "2").err
    assert "restarts " not in typed and "rank logs" not in typed


def test_what_is_typed_over_settings_or_removed_is_not_shown_as_theirs(desk: Desk) -> None:
    desk.write(str(desk.config / "settings.yaml"), "mail: {to: me@here.org}\nsbatch: [--nice=100, --comment=theirs]\n")
    desk.write("hpclaunch.yaml", "remove: [--nice, --mail-user, --mail-type]\n")
    site = ("--site", "perlmutter", "--runs-dir", "/home/x", "--account", "m1234_g")
    done = desk.type("submit", "cifar", "--synthetic", "--dry-run", *site, "--sbatch=--comment=typed")
    assert "#SBATCH --comment=typed" in done.out and "theirs" not in done.out + done.err
    assert "mail END" not in done.err and "sbatch --" not in done.err
    assert done.err.count("removed --") == 3


def test_sites_are_listed_and_shown(desk: Desk) -> None:
    rows = desk.type("sites", "list", "--json").json["sites"]
    assert {row["name"] for row in rows} >= BUNDLED
    first = [line.split("\t")[0] for line in desk.type("sites", "list").out.splitlines()]
    assert first == ["site", *(row["name"] for row in rows)]
    shown = desk.type("sites", "show", "perlmutter", "--json").json
    assert shown["node_types"]["gpu40"]["gpus_per_node"] == 4
    assert "gpu40 (usual)" in desk.type("sites", "show", "perlmutter").out


def test_a_list_of_sites_says_gpus_launcher_and_what_a_person_should_beware_of(desk: Desk) -> None:
    desk.write(
        "site_configs/ours.yaml",
        "title: x\nscheduler: slurm\ndefaults: {node_type: a}\nnode_types: {a: {title: x, gpus_per_node: 2}}\n",
    )
    rows = {row["name"]: row for row in desk.type("sites", "list", "--json").json["sites"]}
    assert (rows["perlmutter"]["gpus"], rows["perlmutter"]["launcher"]) == ("4 x A100 40 GB (+1 type)", "srun")
    assert rows["ours"]["unverified"] == ["the launcher", "how GPUs are asked for"]
    lines = {line.split("\t")[0]: line.split("\t") for line in desk.type("sites", "list").out.splitlines()}
    assert lines["ours"] == ["ours", "project", "unverified", "2 x GPU", "-", "x"]
    assert lines["cori"][2] == "retired"
    assert lines["local"][3] == "-"


def test_a_shown_site_names_the_source_of_its_values(desk: Desk) -> None:
    shown = desk.type("sites", "show", "perlmutter").out
    words = " ".join(shown.split())
    assert "debug at most 00:30:00 [iri, epic; third-party] at most 8 nodes [epic; third-party]" in words
    assert "charging.rate the machine's charge factor" in words
    assert "tft        github NERSC/nersc-tf-tests @591d546 (2024-03-13)" in shown
    assert "\x1b" not in shown
    found = {value["key"]: value for value in desk.type("sites", "show", "perlmutter", "--json").json["provenance"]}
    assert found["qos.debug.max_nodes"] == {
        "key": "qos.debug.max_nodes",
        "value": 8,
        "sources": ["epic"],
        "mark": "third-party",
        "how": "",
        "old": False,
    }
    assert " [tft; old]" in shown and " values from old sources only (marked old)" in words
    assert found["scheduler"]["old"]


def test_the_site_file_is_printed_as_it_is(desk: Desk) -> None:
    path = desk.write("site_configs/broken.yaml", "title: x # half written\n")
    done = desk.type("sites", "show", "broken", "--yaml")
    assert (done.code, done.out) == (0, path.read_text())
    assert desk.type("sites", "show", "broken", "--yaml", "--json").code == 2


def test_without_a_name_the_site_of_a_submission_is_shown(desk: Desk) -> None:
    done = desk.type("sites", "show")
    assert (done.out.splitlines()[0], done.err) == ("local", "local (no cluster was detected)\n")
    done = desk.type("sites", "show", NERSC_HOST="perlmutter")
    assert (done.out.splitlines()[0], done.err) == ("perlmutter", "perlmutter (detected)\n")
    assert desk.type("sites", "show", HPCLAUNCH_SITE="lumi").out.splitlines()[0] == "lumi"


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_is_for_terminals_and_can_be_switched_off(desk: Desk, no_color: str, coloured: bool) -> None:
    text = on_a_terminal(desk, "sites", "show", "vista", NO_COLOR=no_color, TERM="xterm")
    assert ("\x1b[33m 0 third-party" in text) == coloured
    assert ("\x1b" in text) == coloured
    assert "0 third-party" in text


def on_a_terminal(desk: Desk, *words: str, **variables: str) -> str:
    """What ``hpclaunch WORDS`` writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "hpclaunch", *words],
        cwd=desk.project,
        env={**desk.environment, **variables},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # what Linux says when the other side has closed
            read = b""
        if not read:
            break
        text += read
    _, err = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0, err
    return text.decode()


def test_a_faulty_site_is_listed_as_faulty_and_shown_with_its_faults(desk: Desk) -> None:
    desk.write("site_configs/broken.yaml", "title: x\n")
    rows = {row["name"]: row for row in desk.type("sites", "list", "--json").json["sites"]}
    assert rows["broken"]["status"] == "faulty"
    done = desk.type("sites", "show", "broken")
    assert (done.code, "scheduler: this key is required" in done.err) == (1, True)


def test_settings_for_a_site_that_does_not_exist_are_refused(desk: Desk) -> None:
    desk.write(str(desk.config / "settings.yaml"), "sites: {perlmuter: {qos: debug}}\n")
    done = desk.type("submit", "cifar", "--synthetic", "--dry-run")
    assert (done.code, "sites.perlmuter: no such site; did you mean 'perlmutter'?" in done.err) == (1, True)


def test_ones_own_site_is_detected_before_the_bundled_ones(desk: Desk) -> None:
    desk.write(
        "site_configs/ours.yaml",
        "title: x\nscheduler: local\ndefaults: {node_type: a}\nnode_types: {a: {title: x, cores_per_node: 1}}\n"
        "launchers: {default: horovodrun, options: {horovodrun: {}}}\ndetect: {environment: {OUR_CLUSTER: yes}}\n",
    )
    assert chosen(desk, OUR_CLUSTER="yes") == "site ours (detected)"
    assert chosen(desk) != "site ours (detected)"


def test_a_partition_that_has_not_the_node_type_is_refused(desk: Desk) -> None:
    desk.write(
        "site_configs/ours.yaml",
        "title: x\nscheduler: slurm\ndefaults: {node_type: gpu, partition: thin}\n"
        "node_types: {gpu: {title: x, cores_per_node: 8}, cpu: {title: y, cores_per_node: 8}}\n"
        "partitions: {thin: {node_types: [cpu]}, fat: {node_types: [gpu]}}\n"
        "launchers: {default: srun, options: {srun: {}}}\n",
    )
    done = desk.type(
        "submit", "cifar", "--synthetic", "--dry-run", "--site", "ours", "--partition", "thin", "--node-type", "gpu"
    )
    assert done.code == 1
    assert "ours partition thin: node type gpu requested; allowed: cpu" in done.err
    assert "--partition fat would be accepted" in done.err


def test_a_site_file_without_permission_is_named_with_the_reason(ordinary_user: Desk) -> None:
    closed = ordinary_user.write("site_configs/a.yaml", "title: x\n", mode=0o000)
    done = ordinary_user.type("submit", "./train.py", "--site", "a")
    step = f"ls -ld {closed} shows who may read it"
    assert (done.code, done.err) == (1, f"error: {closed}: cannot be read: Permission denied\n    next: {step}\n")
    listed = ordinary_user.type("sites", "list").out
    assert f"cannot be used: {closed}: cannot be read: Permission denied" in listed


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_a_folder_of_sites_without_permission_is_named(ordinary_user: Desk, mode: int) -> None:
    folder = ordinary_user.write("site_configs/a.yaml", "title: x\n").parent
    folder.chmod(mode)
    done = ordinary_user.type("submit", "./train.py", "--site", "a")
    folder.chmod(0o755)
    assert done.code == 1
    assert f"no site is called 'a'; you may not read {folder}; allowed:" in done.err
