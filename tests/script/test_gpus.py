"""What a rank's shell finds out about its GPUs before the program starts: on trees like those of real nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import with_library

AMD_NODE = "simd_count 880\ndrm_render_minor {minor}\nlocation_id {place}\nunique_id {unique}\n"


def nvidia(root: Path, gpus: int, closed: Sequence[int] = (), divided: Sequence[int] = ()) -> Path:
    """A node of NVIDIA; a cgroup has ``closed`` the device files of some, and some are ``divided`` into MIG devices."""
    for number in range(gpus):
        about = root / f"proc/driver/nvidia/gpus/0000:{number + 1:02x}:00.0"
        about.mkdir(parents=True)
        lines = ["Model: \t\t NVIDIA A100", "IRQ:   \t\t 1", f"GPU UUID: \t GPU-{number}aaa-bb", "Video BIOS: \t 92"]
        (about / "information").write_text("\n".join([*lines, f"Device Minor: \t {number}", ""]))
        if number in divided:
            (root / f"proc/driver/nvidia/capabilities/gpu{number}/mig/gi7").mkdir(parents=True)
        if number not in closed:
            (root / "dev").mkdir(exist_ok=True)
            (root / f"dev/nvidia{number}").touch()
    (root / "dev/shm").mkdir(parents=True, exist_ok=True)
    return root


def amd(root: Path, gpus: int, closed: Sequence[int] = ()) -> Path:
    """A node of AMD with two processors, whose GPUs follow them."""
    for number in range(gpus + 2):
        node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        minor = 126 + number
        is_gpu = number > 1
        text = AMD_NODE.format(minor=minor, place=number << 8, unique=0xABC0 + number) if is_gpu else "simd_count 0\n"
        (node / "properties").write_text(text)
        if is_gpu and number - 2 not in closed:
            (root / "dev/dri").mkdir(parents=True, exist_ok=True)
            (root / f"dev/dri/renderD{minor}").touch()
    (root / "dev/kfd").parent.mkdir(exist_ok=True)
    (root / "dev/kfd").touch()
    (root / "dev/shm").mkdir(exist_ok=True)
    return root


def rank(root: Path, lines: str, number: int = 0, size: int = 4, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run these lines in the shell of a rank on such a node, and print what they leave of its place and its GPUs."""
    attempt = root / "run/attempts/7.0"
    attempt.mkdir(parents=True, exist_ok=True)
    place = f"export RANK={number} LOCAL_RANK={number} LOCAL_WORLD_SIZE={size}"
    known = {
        "HPCLAUNCH_HARDWARE_ROOT": str(root),
        "HPCLAUNCH_RUN_DIR": str(root / "run"),
        "HPCLAUNCH_EXIT_FILE": str(attempt / "first-failure"),
        "HPCLAUNCH_EXPECT_GPU": "1",
    }
    shown = "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES LOCAL_RANK LOCAL_WORLD_SIZE HPCLAUNCH_LOCAL_RANK"
    told = f'for name in {shown}; do [ -z "${{!name+x}}" ] || echo $name=${{!name}}; done'
    return with_library(
        f"{place}; taken=(); rank() {{ {lines}; }}; rank; code=$?; {told}; exit $code", **{**known, **variables}
    )


def told(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a rank that was not started."""
    assert done.returncode == 78, done.stderr
    (line,) = done.stderr.splitlines()
    beginning, _, reason = line.partition(" was not started: ")
    assert beginning.startswith("hpclaunch: rank ")
    return reason


def started(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What a rank was left with that was started without a word."""
    assert (done.returncode, done.stderr) == (0, "")
    return told(done)


CHECK = "check_gpus {} 1 || return 78"


@pytest.mark.parametrize(
    "variables", [{}, {"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, {"CUDA_VISIBLE_DEVICES": "GPU-3,GPU-2"}]
)
def test_ranks_that_see_a_gpu_each_are_started(tmp_path: Path, variables: dict[str, str]) -> None:
    node = nvidia(tmp_path, 4)
    for number in (0, 1):
        done = rank(node, CHECK.format("NVIDIA"), number, **variables)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("vendor", "closed", "variables", "seen"),
    [
        ("NVIDIA", (), {"CUDA_VISIBLE_DEVICES": "3"}, "(CUDA_VISIBLE_DEVICES=3)"),
        ("NVIDIA", (), {"CUDA_VISIBLE_DEVICES": "2,7,1,0"}, "(CUDA_VISIBLE_DEVICES=2,7,1,0)"),  # there is no 7
        ("NVIDIA", (0, 1, 2), {}, "(CUDA_VISIBLE_DEVICES is not set)"),
        ("NVIDIA", (0, 1, 2), {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "(CUDA_VISIBLE_DEVICES=0,1,2,3)"),
        ("AMD", (), {"ROCR_VISIBLE_DEVICES": "3"}, "(ROCR_VISIBLE_DEVICES=3)"),
        ("AMD", (), {"ROCR_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "(CUDA_VISIBLE_DEVICES=0,1,2,3)"),
        ("AMD", (), {"ROCR_VISIBLE_DEVICES": "0,1,2,3", "HIP_VISIBLE_DEVICES": "2"}, "(HIP_VISIBLE_DEVICES=2)"),
        ("AMD", (1, 2, 3), {}, "(ROCR_VISIBLE_DEVICES is not set)"),
        ("any", (), {"CUDA_VISIBLE_DEVICES": "0"}, "(CUDA_VISIBLE_DEVICES=0)"),
        ("any", (), {"ROCR_VISIBLE_DEVICES": "0"}, "(ROCR_VISIBLE_DEVICES=0)"),
    ],
)
def test_a_rank_that_does_not_see_the_gpu_of_its_number_is_not_started(
    tmp_path: Path, vendor: str, closed: tuple[int, ...], variables: dict[str, str], seen: str
) -> None:
    node = (amd if vendor == "AMD" else nvidia)(tmp_path, 4, closed)
    reason = refusal(rank(node, CHECK.format(vendor), 3, **variables))
    assert reason == (
        f"a program takes GPU 3 by LOCAL_RANK=3, and sees only 1 {seen}: type --gpu-view one, or fewer tasks per node"
    )
    assert (tmp_path / "run/attempts/7.0/first-failure").read_text() == "78\n"
    again = rank(node, CHECK.format(vendor), 2, **variables)
    assert (again.returncode, again.stderr) == (78, "")  # one sentence for the whole job


@pytest.mark.parametrize("variables", [{}, {"CUDA_VISIBLE_DEVICES": "GPU-9"}, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}])
@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD", "Intel", "any"])
def test_nothing_is_said_of_a_node_that_tells_nothing(tmp_path: Path, vendor: str, variables: dict[str, str]) -> None:
    (tmp_path / "dev").mkdir()
    number = 0 if variables.get("CUDA_VISIBLE_DEVICES") == "GPU-9" else 3
    done = rank(tmp_path, CHECK.format(vendor), number, **variables)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_rank_without_a_number_and_a_gpu_that_is_only_expected_are_not_looked_at(tmp_path: Path) -> None:
    node = nvidia(tmp_path, 4, closed=(0, 1, 2, 3))
    assert "it sees no GPU (CUDA_VISIBLE_DEVICES is not set)" in refusal(rank(node, CHECK.format("NVIDIA")))
    assert started(rank(node, CHECK.format("NVIDIA"), HPCLAUNCH_EXPECT_GPU="found"))["LOCAL_RANK"] == "0"
    assert started(rank(node, f"unset LOCAL_RANK; {CHECK.format('NVIDIA')}")) == {"LOCAL_WORLD_SIZE": "4"}


@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD"])
@pytest.mark.parametrize("apart", [False, True])
def test_two_living_ranks_with_one_device_are_found_by_the_device_and_not_by_its_number(
    tmp_path: Path, vendor: str, apart: bool
) -> None:
    node = nvidia(tmp_path, 2) if vendor == "NVIDIA" else amd(tmp_path, 2)
    variable = "CUDA_VISIBLE_DEVICES" if vendor == "NVIDIA" else "ROCR_VISIBLE_DEVICES"
    # Both have LOCAL_RANK 0 and one GPU, as where each rank is bound. The other rank lives as long as this shell.
    first = f"(export RANK=1 {variable}=1; {CHECK.format(vendor)}) || return 9"
    done = rank(node, f"{first}; export {variable}={0 if apart else 1}; {CHECK.format(vendor)}")
    device = {"NVIDIA": "nvidia1", "AMD": "renderD129"}[vendor]
    if apart:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        # A subshell has the process of its shell, so this is rank 1 of the same process.
        assert refusal(done) == f"it has the GPU of rank 1, {device} ({variable}=1)"


def test_the_mark_of_a_rank_that_has_ended_is_no_reason_and_marks_are_taken_away(tmp_path: Path) -> None:
    node = nvidia(tmp_path, 2)
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f"dev/shm/hpclaunch-0-run-7.0-nvidia0.5.{ended.pid}").touch()
    lines = 'RANK=0; check_gpus NVIDIA 1 && printf "%s\\n" "${taken[@]}" >&2; rm -f "${taken[@]}"'
    done = rank(node, lines)
    assert done.returncode == 0
    assert "-run-7.0-nvidia0.0." in done.stderr
    assert [path.name.rpartition(".")[2] for path in (tmp_path / "dev/shm").iterdir()] == [str(ended.pid)]


@pytest.mark.parametrize(
    ("variables", "divided"),
    [({"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}, ()), ({"CUDA_VISIBLE_DEVICES": "0,1"}, (0, 1)), ({}, (0, 1))],
)
def test_ranks_do_not_share_mig_devices_and_each_can_have_one(
    tmp_path: Path, variables: dict[str, str], divided: tuple[int, ...]
) -> None:
    node = nvidia(tmp_path, 2, divided=divided)
    place = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    assert started(rank(node, CHECK.format("NVIDIA"), 0, 2, **variables)) == {**variables, **place}
    assert refusal(rank(node, CHECK.format("NVIDIA"), 1, 2, **variables)).startswith(
        "a process sees one MIG device only, so GPU 1 of LOCAL_RANK=1 is not there"
    )
    if "MIG-a,MIG-b" in variables.values():
        done = rank(node, "show_one_gpu NVIDIA || return 78; check_gpus NVIDIA 1 || return 78", 1, 2, **variables)
        assert (started(done)["CUDA_VISIBLE_DEVICES"], told(done)["LOCAL_RANK"]) == ("MIG-b", "0")


@pytest.mark.parametrize("number", [0, 1])
def test_ranks_that_would_all_take_the_first_mig_device_are_refused(tmp_path: Path, number: int) -> None:
    node = nvidia(tmp_path, 1, divided=(0,))
    lines = "show_one_gpu NVIDIA || return 78; check_gpus NVIDIA 1 || return 78"
    assert refusal(rank(node, lines, number, 2)).startswith(
        "CUDA_VISIBLE_DEVICES is not set, so all 2 ranks of this node would take the first MIG device: name one"
    )
    (tmp_path / "run/attempts/7.0/first-failure").unlink()
    assert "CUDA_VISIBLE_DEVICES" not in started(rank(node, lines, 0, 1))
    own = started(rank(node, lines, number, 2, CUDA_VISIBLE_DEVICES=f"MIG-{number}"))
    assert (own["CUDA_VISIBLE_DEVICES"], own["HPCLAUNCH_LOCAL_RANK"]) == (f"MIG-{number}", str(number))
    shared = rank(node, lines.replace("NVIDIA 1", "NVIDIA 1 shared"), number, 2)
    assert shared.returncode == 0
    assert re.fullmatch(
        rf"hpclaunch: warning: rank {number} on \S+: CUDA_VISIBLE_DEVICES is not set, so all 2 ranks of this node "
        r"would take the first MIG device: name one for each rank in CUDA_VISIBLE_DEVICES \(nvidia-smi -L\), or type "
        r"--tasks-per-node 1\n",
        shared.stderr,
    ), shared.stderr


def test_of_whole_gpus_beside_divided_ones_it_is_not_known_which_a_process_sees(tmp_path: Path) -> None:
    node = nvidia(tmp_path, 3, divided=(0,))
    done = rank(node, CHECK.format("NVIDIA"), 2, 3)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD"])
def test_a_rank_that_sees_gpus_of_other_jobs_is_not_started(tmp_path: Path, vendor: str) -> None:
    node = (amd if vendor == "AMD" else nvidia)(tmp_path, 4)
    variable = "ROCR_VISIBLE_DEVICES" if vendor == "AMD" else "CUDA_VISIBLE_DEVICES"
    lines = f"node_gpus() {{ slurm_node_gpus; }}; {CHECK.format(vendor)}"
    assert refusal(rank(node, lines, SLURM_GPUS_ON_NODE="2")) == (
        f"it sees 4 GPUs, and the job has 2 on this node: {variable} is not set, and nothing else hides those of other "
        "jobs"
    )
    (tmp_path / "run/attempts/7.0/first-failure").unlink()
    hidden: list[dict[str, str]] = [{"SLURM_GPUS_ON_NODE": "4"}, {}, {"SLURM_GPUS_ON_NODE": "2", variable: "2,3"}]
    for variables in hidden:
        done = rank(node, lines, 1, **variables)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_node_with_gpus_of_another_vendor_is_named(tmp_path: Path) -> None:
    node = amd(tmp_path / "amd", 2)
    said = "the site file promises GPUs of NVIDIA, and this node has GPUs of AMD"
    assert refusal(rank(node, CHECK.format("NVIDIA"))) == said
    said = "the site file promises GPUs of AMD, and this node has GPUs of NVIDIA"
    assert refusal(rank(nvidia(tmp_path / "nvidia", 2), CHECK.format("AMD"))) == said


def test_beside_a_device_of_the_vendor_another_one_says_nothing(tmp_path: Path) -> None:
    """In a container NVIDIA's driver may tell nothing about its GPUs, and a processor of AMD may have a GPU."""
    node = amd(tmp_path, 1)
    (node / "dev/nvidia0").touch()
    assert started(rank(node, CHECK.format("NVIDIA")))["LOCAL_RANK"] == "0"


@pytest.mark.parametrize("shared", ["shared", "mps"])
def test_where_sharing_was_asked_for_it_is_a_warning(tmp_path: Path, shared: str) -> None:
    node = nvidia(tmp_path, 4)
    own = {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"} if shared == "mps" else {}
    word = "shared " if shared == "shared" else ""
    done = rank(node, f"check_gpus NVIDIA 1 {word}|| return 78", 3, CUDA_VISIBLE_DEVICES="0", **own)
    assert done.returncode == 0
    beginning, _, reason = done.stderr.partition(": a program takes ")
    assert beginning.startswith("hpclaunch: warning: rank 3 on ")
    assert reason == (
        "GPU 3 by LOCAL_RANK=3, and sees only 1 (CUDA_VISIBLE_DEVICES=0): type --gpu-view one, or fewer tasks per "
        "node\n"
    )
    assert told(done)["LOCAL_RANK"] == "3"


def test_ranks_that_take_pairs_need_both(tmp_path: Path) -> None:
    node = nvidia(tmp_path, 4)
    assert started(rank(node, "check_gpus NVIDIA 2 || return 78", 1, 2))["LOCAL_RANK"] == "1"
    reason = refusal(rank(node, "check_gpus NVIDIA 2 || return 78", 1, 2, CUDA_VISIBLE_DEVICES="0,1,2"))
    assert reason.startswith("a program takes GPU 3 by LOCAL_RANK=1, and sees only 3 ")
    overlapping = (
        "(export RANK=1 CUDA_VISIBLE_DEVICES=1,2; check_gpus NVIDIA 2) || return 9; "
        "export CUDA_VISIBLE_DEVICES=0,1; check_gpus NVIDIA 2 || return 78"
    )
    (tmp_path / "run/attempts/7.0/first-failure").unlink()
    assert refusal(rank(node, overlapping)).startswith("it has the GPU of rank 1, nvidia1 ")


@pytest.mark.parametrize(
    ("vendor", "variables", "left"),
    [
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "2"}, {"CUDA_VISIBLE_DEVICES": "2"}),  # the launcher has chosen
        ("NVIDIA", {}, {"CUDA_VISIBLE_DEVICES": "2"}),
        ("AMD", {}, {"ROCR_VISIBLE_DEVICES": "2"}),
        ("AMD", {"ROCR_VISIBLE_DEVICES": "0,1,3,2"}, {"ROCR_VISIBLE_DEVICES": "3"}),
        (
            "AMD",  # Slurm sets both where it does not know the vendor; the first has bound the rank
            {"ROCR_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0,1,2,3"},
            {"ROCR_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0,1,2,3"},
        ),
        ("any", {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, {"CUDA_VISIBLE_DEVICES": "2"}),
        ("any", {}, {}),
    ],
)
@pytest.mark.parametrize("tells", [True, False])
def test_one_gpu_is_that_of_the_ranks_number_and_then_number_0(
    tmp_path: Path, vendor: str, variables: dict[str, str], left: dict[str, str], tells: bool
) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    if tells and vendor != "any":
        (amd if vendor == "AMD" else nvidia)(tmp_path / "node", 4)
    node = tmp_path / "node" if tells and vendor != "any" else tmp_path
    done = rank(node, f"show_one_gpu {vendor} || return 78; {CHECK.format(vendor)}", 2, **variables)
    place = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "HPCLAUNCH_LOCAL_RANK": "2"}
    assert (done.returncode, done.stderr, told(done)) == (0, "", {**left, **place})


def test_a_gpu_that_a_cgroup_has_bound_is_left_as_it_is(tmp_path: Path) -> None:
    node = nvidia(tmp_path, 4, closed=(0, 1, 3))
    done = rank(node, "show_one_gpu NVIDIA || return 78; check_gpus NVIDIA 1 || return 78", 2)
    place = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "HPCLAUNCH_LOCAL_RANK": "2"}
    assert started(done) == place, "the list of its GPUs is left unset"


def test_a_list_without_a_gpu_for_the_rank_is_said(tmp_path: Path) -> None:
    done = rank(nvidia(tmp_path, 4), "show_one_gpu NVIDIA || return 78", 3, CUDA_VISIBLE_DEVICES="0,1")
    assert refusal(done) == "CUDA_VISIBLE_DEVICES=0,1 names no GPU for LOCAL_RANK=3"


@pytest.mark.parametrize("listed", ["08", "GPU-2AAA", "GPU-2", " 2 "])
def test_a_gpu_is_named_by_its_number_or_the_beginning_of_its_uuid(tmp_path: Path, listed: str) -> None:
    """CUDA takes a number with a 0 before it, a UUID in capitals, and one that is cut short."""
    node = nvidia(tmp_path, 9)
    done = rank(node, 'check_gpus NVIDIA 1 || return 78; printf "%s\\n" "${taken[@]##*/}"', CUDA_VISIBLE_DEVICES=listed)
    assert (done.returncode, done.stderr) == (0, "")
    device = "nvidia8" if listed == "08" else "nvidia2"
    assert f"-7.0-{device}.0." in done.stdout


@pytest.mark.parametrize("listed", ["2,x,1", "2,,1", "2,-1,1"])
def test_what_names_no_gpu_ends_the_list(tmp_path: Path, listed: str) -> None:
    reason = refusal(rank(nvidia(tmp_path, 4), CHECK.format("NVIDIA"), 1, 2, CUDA_VISIBLE_DEVICES=listed))
    assert reason.startswith(f"a program takes GPU 1 by LOCAL_RANK=1, and sees only 1 (CUDA_VISIBLE_DEVICES={listed})")


def test_an_empty_list_of_gpus_hides_them_all(tmp_path: Path) -> None:
    assert "it sees no GPU (CUDA_VISIBLE_DEVICES=)" in refusal(
        rank(nvidia(tmp_path, 4), CHECK.format("NVIDIA"), CUDA_VISIBLE_DEVICES="")
    )


def test_a_rank_that_has_ended_leaves_no_mark_of_its_gpu(tmp_path: Path) -> None:
    node = nvidia(tmp_path, 1)
    text = "rank() { check_gpus NVIDIA 1; ls $HPCLAUNCH_HARDWARE_ROOT/dev/shm | wc -l; }; run_rank"
    attempt = tmp_path / "run/attempts/7.0"
    attempt.mkdir(parents=True)
    known = {"HPCLAUNCH_HARDWARE_ROOT": str(node), "HPCLAUNCH_RUN_DIR": str(tmp_path / "run")}
    done = with_library(text, HPCLAUNCH_EXIT_FILE=str(attempt / "first-failure"), **known)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert not list((tmp_path / "dev/shm").iterdir())
