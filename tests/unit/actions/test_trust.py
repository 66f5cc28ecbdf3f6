"""What of a project is named before it may run on this machine, and the list of the folders that are trusted."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace as replaced
from pathlib import Path

import pytest

from hpclaunch.actions.preparing import trust
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.queueing.start import refuse_untrusted
from hpclaunch.actions.system import System
from hpclaunch.core.consents import keeper_of
from hpclaunch.core.errors import ChangeableByOthers, NotFound, Refused
from hpclaunch.core.spec import Request
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.resolve.case import Case

JOB = "summary: x\nscript: train.py\nenvironment: {setup: [a, b], python: PYTHON}\n"
SITE = """title: x
scheduler: SCHEDULER
defaults: {node_type: small}
environment: {modules: [gcc]}
frameworks: {tensorflow: {setup: [tf]}}
node_types:
  small: {title: x, cores_per_node: 1}
  large: {title: x, cores_per_node: 9, environment: {setup: [large]}, frameworks: {tensorflow: {setup: [large tf]}}}
"""


PLAIN_SITE = """title: x
scheduler: local
defaults: {node_type: x}
node_types: {x: {title: x, cores_per_node: 1}}
"""


class Project:
    """A folder with files of somebody else; `answers` are those of the user to the questions on the terminal."""

    def __init__(self, folder: Path, *answers: bool) -> None:
        self.folder, self.answers, self.told = folder / "project", list(answers), list[str]()
        self.asked: list[str] = []
        for name in ("project", "home/.config/hpclaunch", "elsewhere"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        home = {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state"), "PATH": "/usr/bin:/bin"}
        self.environment = {**home, "XDG_CONFIG_HOME": str(folder / "home/.config")}
        self.write("site_configs/x.yaml", PLAIN_SITE)

    def write(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def system(self) -> System:
        self.told.clear()
        return System(cwd=self.folder, environment=self.environment, tell=self.told.append, confirm=self._confirm)

    def _confirm(self, question: str) -> bool | None:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else None

    def case(self, target: str, site: str = "x") -> Case:
        return load(self.system, Request(target=target, site=site))

    def refusal(self, target: str, ask: Callable[[System, Case], str] = trust.run_refusal) -> str:
        return ask(self.system, self.case(target))

    @property
    def named(self) -> list[str]:
        """What would run, as the user is told."""
        return [line.strip() for line in self.told if line.startswith("  ")]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("jobs/mine/job.yaml", JOB.replace("PYTHON", "current"))
    made.write("jobs/mine/train.py")
    return made


def test_what_the_user_names_is_not_asked_about(project: Project) -> None:
    project.write("site_configs/x.yaml", SITE.replace("SCHEDULER", "local"))
    project.write("hpclaunch.yaml", "environment: {setup: [mine]}\n")
    script = project.write("run.sh", "true\n")
    assert project.refusal("mine") == project.refusal(f"./{script.name}") == ""
    project.write("inner/run.sh", "true\n")
    assert project.refusal("./inner/run.sh") == "", "nor a script in a folder below"
    assert project.asked == project.told == []


@pytest.mark.parametrize("python", ["current", "/opt/python"])
def test_a_job_that_hides_another_is_named_with_all_that_it_sets_up(project: Project, python: str) -> None:
    project.write("jobs/mnist/job.yaml", JOB.replace("PYTHON", python))
    project.write("jobs/mnist/train.py")
    project.write("../home/.config/hpclaunch/jobs/other/job.yaml", JOB)  # the user's own jobs hide nothing
    refused = project.refusal("mnist")
    folder = project.folder
    assert refused == f"{folder} is not a trusted folder (to trust it: hpclaunch trust {folder})"
    assert project.told[0] == f"{folder} is not a trusted folder. This of it would run on this machine:"
    assert len(project.told) == 1 + len(project.named), "nothing of others, who cannot change it"
    lines = [f"job mnist, environment.setup: {line}" for line in ("a", "b")]
    if python != "current":
        lines.append("job mnist, environment.python: /opt/python")
    assert sorted(project.named) == sorted([f"the program of {folder}/jobs/mnist", *lines])
    trust.trust_folder(project.environment, folder / "jobs/mnist")
    assert project.refusal("mnist") == "", "the job's own folder is enough"


def test_all_that_a_project_adds_to_a_bundled_job_is_named(project: Project, tmp_path: Path) -> None:
    assert project.refusal("mnist") != "" and project.named == [
        f"what the site x sets up ({project.folder}/site_configs/x.yaml)"
    ]
    file = project.write("site_configs/x.yaml", SITE.replace("SCHEDULER", "local"))
    settings = {"environment": {"setup": ["s1", "s2"], "variables": {"A": "1", "B": "2"}}, "runs_dir": "r"}
    project.write("hpclaunch.yaml", json.dumps({**settings, "sites": {"x": {"environment": {"modules": ["m"]}}}}))
    templates = [project.write(f"templates/{name}") for name in ("base.sh.j2", "extra.sh", "zz.j2")]
    project.write("templates/notes.txt")
    (tmp_path / "home/.config/hpclaunch/settings.yaml").write_text("environment: {setup: [own]}\n")
    assert project.refusal("mnist")
    assert sorted(project.named) == sorted(
        [
            *(f"hpclaunch.yaml, environment.setup: {line}" for line in ("s1", "s2")),
            *(f"hpclaunch.yaml, environment.variables: {line}" for line in ("A=1", "B=2")),
            "hpclaunch.yaml, environment.modules: m",
            f"what the site x sets up ({file})",
            "site x, environment.modules: gcc",
            *(f"site x, environment.setup: {line}" for line in ("tf", "large", "large tf")),
            *(f"the template {path}" for path in templates),
        ]
    ), "what the user's own settings add is not asked about"
    trust.trust_folder(project.environment, project.folder)
    assert project.refusal("mnist") == ""


def test_a_script_from_elsewhere_takes_what_the_project_adds_only_if_it_is_trusted(
    project: Project, tmp_path: Path
) -> None:
    script = tmp_path / "elsewhere/run.sh"
    script.write_text("true\n")
    project.write("site_configs/x.yaml", SITE.replace("SCHEDULER", "local"))
    assert project.refusal(str(script)) and len(project.named) == 5


def test_only_what_starts_on_this_machine_is_asked_about(project: Project) -> None:
    project.write("site_configs/x.yaml", SITE.replace("SCHEDULER", "slurm"))
    prepared = prepare(project.system, Request(target="mnist", site="x"))
    refuse_untrusted(project.system, prepared)
    inside = Allocation(job_id="7", hosts=("n1",), nodes="n1")
    case = replaced(prepared.case, context=replaced(prepared.case.context, allocation=inside))
    with pytest.raises(Refused, match=r"nothing was started: .* is not a trusted folder"):
        refuse_untrusted(project.system, replaced(prepared, case=case))
    assert len(project.named) == 5


def test_of_many_lines_twenty_are_shown(project: Project) -> None:
    for number in (19, 20):
        project.write("hpclaunch.yaml", json.dumps({"environment": {"setup": [f"s{one}" for one in range(number)]}}))
        assert project.refusal("mnist")
        assert [line.startswith("and ") for line in project.named] == [False] * 20 + [True] * (number - 19)
    assert project.named[-1] == "and 1 more"


def test_the_model_and_the_data_of_a_job_are_programs_of_its_project(project: Project) -> None:
    training = "training: {samples: 9, model: 'model:make'}\n"
    data = "data: {name: x, layouts: [x], make: {program: make.py}}\n"
    project.write("jobs/mine/job.yaml", JOB.replace("PYTHON", "current") + "parameters: {epochs: 1}\n" + training)
    assert project.refusal("mine", trust.model_refusal)
    assert project.named[0] == f"the model model:make of {project.folder}/jobs/mine"
    assert f"what the site x sets up ({project.folder}/site_configs/x.yaml)" in project.named
    assert trust.data_refusal(project.system, project.case("mine").job) == "", "it makes no data"
    assert trust.data_refusal(project.system, project.case("transformer").job) == "", "it is bundled"
    project.write("jobs/mine/make.py")
    project.write("jobs/mine/job.yaml", JOB.replace("PYTHON", "current") + data)
    assert trust.data_refusal(project.system, project.case("mine").job)
    assert project.named[0] == f"the program make.py of {project.folder}/jobs/mine"


def test_who_says_yes_trusts_the_project_alone(tmp_path: Path) -> None:
    """And not the folder to which a link of it leads."""
    project = Project(tmp_path, True)
    project.write("jobs/mnist/job.yaml", JOB.replace("PYTHON", "current"))
    project.write("jobs/mnist/train.py")
    (tmp_path / "project/jobs/mnist").rename(tmp_path / "elsewhere/mnist")
    (tmp_path / "project/jobs/mnist").symlink_to(tmp_path / "elsewhere/mnist")
    assert project.refusal("mnist") == "" and len(project.asked) == 1
    assert trust.trusted_folders(project.environment) == [project.folder]
    assert not (tmp_path / "state/hpclaunch/shared-folders.jsonl").exists(), "nobody else can change it"


def test_who_says_yes_is_asked_once_and_who_says_no_is_told_how(tmp_path: Path) -> None:
    project = Project(tmp_path, False, True)
    words = f"(to trust it: hpclaunch trust {project.folder})"
    assert words in project.refusal("mnist")
    assert project.refusal("mnist") == ""
    assert project.asked == ["trust this folder, now and later? [y/N]"] * 2
    assert project.refusal("mnist") == "" and len(project.asked) == 2
    assert trust.trusted_folders(project.environment) == [project.folder]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; those of pytest are closed, and so is what they contain."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("answer", [True, False])
def test_a_folder_that_others_can_change_is_trusted_only_despite_this(open_folder: Path, answer: bool) -> None:
    """The site's file was taken before the mode of the folder changed."""
    project = Project(open_folder, answer)
    case = project.case("mnist")
    project.folder.chmod(0o777)
    refused = trust.run_refusal(project.system, case)
    assert any(line.startswith("Others can change this folder: ") for line in project.told)
    assert project.asked == ["trust this folder all the same, now and later? [y/N]"]
    assert refused == "" if answer else refused.endswith(f"hpclaunch trust {project.folder} --despite-group)")
    assert trust.is_trusted(project.environment, project.folder) == answer
    if answer:
        project.folder.chmod(0o1777)
        assert not trust.is_trusted(project.environment, project.folder), "it was given for the mode of then"


@pytest.mark.parametrize(
    ("name", "is_code"),
    [
        ("train.py", True),
        ("own/helper.py", True),
        ("run.sh", True),
        ("fast.so", True),
        ("data.csv", False),
        ("py", False),
    ],
)
@pytest.mark.parametrize("way", ["data", "model"])
def test_code_of_a_trusted_job_that_others_can_change_runs_only_with_a_consent(
    open_folder: Path, name: str, is_code: bool, way: str
) -> None:
    project = Project(open_folder)
    parts = {"data": "data: {name: x, layouts: [x], make: {program: train.py}}\n"}
    parts["model"] = "parameters: {epochs: 1}\ntraining: {samples: 9, model: 'model:make'}\n"
    project.write("jobs/mine/job.yaml", JOB.replace("PYTHON", "current") + parts[way])
    project.write("jobs/mine/train.py")
    file = project.write(f"jobs/mine/{name}")
    trust.trust_folder(project.environment, project.folder)

    def refusal() -> str:
        case = project.case("mine")
        if way == "model":
            return trust.model_refusal(project.system, case)
        return trust.data_refusal(project.system, case.job)

    assert refusal() == ""
    file.chmod(0o666)
    refused = refusal()
    if not is_code:
        assert refused == ""
        return
    command = f"hpclaunch trust {file.parent} --despite-group"
    words = f"others can change {file}: {file} can be written by everybody (if you trust them: {command})"
    assert refused == words
    trust.trust_folder(project.environment, file.parent, despite_group=True)
    assert refusal() == "" and project.asked == []


def test_a_folder_to_which_a_link_of_a_job_leads_is_code_too(open_folder: Path) -> None:
    project = Project(open_folder)
    project.write(
        "jobs/mine/job.yaml",
        JOB.replace("PYTHON", "current") + "data: {name: x, layouts: [x], make: {program: train.py}}\n",
    )
    project.write("jobs/mine/train.py")
    shared = open_folder / "elsewhere"
    (project.folder / "jobs/mine/lib").symlink_to(shared)
    trust.trust_folder(project.environment, project.folder)
    assert trust.data_refusal(project.system, project.case("mine").job) == ""
    shared.chmod(0o777)
    refused = trust.data_refusal(project.system, project.case("mine").job)
    assert refused.startswith(f"others can change {project.folder}/jobs/mine/lib: {shared} can be written by everybody")
    assert trust.data_refusal(project.system, project.case("transformer").job) == "", (
        "a bundled job's code is not theirs"
    )


# --- the list


def test_only_a_folder_that_nobody_else_can_change_is_trusted(open_folder: Path) -> None:
    project = Project(open_folder)
    for path in (project.folder / "nowhere", project.write("file")):
        with pytest.raises(Refused) as caught:
            trust.trust_folder(project.environment, path)
        (fault,) = caught.value.faults
        assert (fault.where, fault.what, fault.next) == (str(path), "is not a folder", "name the folder of a project")
    project.folder.chmod(0o777)
    with pytest.raises(ChangeableByOthers, match="is not trusted, as others can change it"):
        trust.trust_folder(project.environment, project.folder)
    assert trust.trusted_folders(project.environment) == []


def test_a_list_that_others_can_change_is_empty_and_gets_no_folder(open_folder: Path) -> None:
    project = Project(open_folder)
    (open_folder / "state/hpclaunch").mkdir(parents=True)
    (open_folder / "state/hpclaunch").chmod(0o777)
    with pytest.raises(ChangeableByOthers, match="others can change what is kept here"):
        trust.trust_folder(project.environment, project.folder)
    (open_folder / "state/hpclaunch").chmod(0o755)
    assert trust.trusted_folders(project.environment) == [], "nor the first one"
    trust.trust_folder(project.environment, project.folder)
    (open_folder / "state/hpclaunch").chmod(0o777)
    assert trust.trusted_folders(project.environment) == []
    with pytest.raises(ChangeableByOthers, match="others can change what is kept here"):
        trust.trust_folder(project.environment, open_folder / "elsewhere")
    (open_folder / "state/hpclaunch").chmod(0o755)
    assert trust.trusted_folders(project.environment) == [project.folder]


def test_a_folder_is_listed_once_by_its_real_path_and_removed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project.folder)
    other = tmp_path / "elsewhere"
    for folder in (tmp_path / "link", project.folder, other):
        trust.trust_folder(project.environment, folder)
    file = tmp_path / "state/hpclaunch/trusted-folders.txt"
    assert file.read_text() == f"{json.dumps(str(project.folder))}\n{json.dumps(str(other))}\n"
    assert trust.is_trusted(project.environment, tmp_path / "link")
    assert not trust.is_trusted(project.environment, project.folder / "jobs")
    assert trust.remove_trust(project.environment, tmp_path / "link") == project.folder
    assert trust.trusted_folders(project.environment) == [other]
    with pytest.raises(NotFound) as caught:
        trust.remove_trust(project.environment, project.folder)
    (fault,) = caught.value.faults
    assert (fault.where, fault.next) == (str(project.folder), "hpclaunch trust --list")
    assert fault.what == "is not a trusted folder"


def test_a_consent_alone_can_be_withdrawn(project: Project) -> None:
    keeper_of(project.environment).consent(project.folder)
    assert trust.remove_trust(project.environment, project.folder) == project.folder
    with pytest.raises(NotFound):
        trust.remove_trust(project.environment, project.folder)


def test_damaged_lines_of_the_list_are_passed_over(project: Project, tmp_path: Path) -> None:
    lines = ["[", "7", "null", '"relative"', '"/b"', "[" * 100_000, "", '"/a"', '"/a"']
    (tmp_path / "state/hpclaunch").mkdir(parents=True)
    (tmp_path / "state/hpclaunch/trusted-folders.txt").write_text("\n".join(lines))
    assert trust.trusted_folders(project.environment) == [Path("/a"), Path("/b")]


@pytest.mark.parametrize("verb", ["trust", "remove"])
def test_a_list_that_cannot_be_written_is_said_with_what_to_do(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    file = tmp_path / "state/hpclaunch/trusted-folders.txt"
    trust.trust_folder(project.environment, tmp_path / "elsewhere")
    opened = os.open

    def fail(path: str, flags: int, *words: int, **more: int) -> int:
        if str(path).startswith(str(file.parent)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(28, "No space left on device", path)
        return opened(path, flags, *words, **more)

    monkeypatch.setattr("os.open", fail)
    monkeypatch.setattr("os.replace", lambda *words, **more: fail(file, os.O_WRONLY))
    with pytest.raises(Refused) as caught:
        if verb == "trust":
            trust.trust_folder(project.environment, project.folder)
        else:
            trust.remove_trust(project.environment, tmp_path / "elsewhere")
    (fault,) = caught.value.faults
    assert fault.what == "the list of trusted folders cannot be written: No space left on device"
    assert (fault.where, fault.next) == (str(file), "set XDG_STATE_HOME to a folder of yours")
