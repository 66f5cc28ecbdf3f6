"""The metadata of a run as an RO-Crate: its script as the workflow, settings, inputs, outputs; it reads nothing.

Profile: Workflow Run Crate 0.5 (w3id.org/ro/wfrun/workflow/0.5), which contains Process Run Crate 0.5 and Workflow
RO-Crate 1.0, on RO-Crate 1.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hpclaunch.core.records import record

METADATA = "ro-crate-metadata.json"
SCRIPT, METRICS, MODEL, CODE, README = "job.sh", "metrics.jsonl", "model/", "code/", "README.md"
CONTEXT = ("https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context")
_CRATE = "https://w3id.org/ro/crate/1.1"
_PROFILES = (
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
)
_PARAMETER = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
_WORKFLOW = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
_BASH, _PERSON, _ACTION, _PROGRAM, _NO_LICENSE = "#bash", "#submitter", "#run", "#hpclaunch", "#license"
_HELD = {SCRIPT: "the submitted script", METRICS: "one JSON object per line: start, epochs, checkpoints, end"}
_HELD |= {"hpclaunch.sh": "the functions that the script calls", "spec.json": "every resolved value of the run"}
_HELD |= {"environment.json": "host, system and Python of the submission"}
_ENCODINGS = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".sh": "text/x-shellscript",
}
_ENCODINGS |= {".py": "text/x-python", ".out": "text/plain", ".yaml": "application/yaml", ".txt": "text/plain"}

Entity = dict[str, Any]


@record
class CrateFile:
    """A file of the crate: its path, size in bytes, and SHA-256. ``changed``: paths in it were replaced by names."""

    path: str
    size: int
    sha256: str
    changed: bool = False


@record
class RunFacts:
    """What the crate says of a run. Times are in ISO 8601; ``began`` is empty if the run never started.

    ``license``: an SPDX identifier or an address; empty: none was named. ``data``: (name, fingerprint) of the data set,
    if the run has one. ``replaced``: the names that stand for folders (``RUN``, ``HOME``, …), with what each is.
    """

    label: str
    job: str
    site: str
    state: str
    error: str
    user: str
    command: str
    began: str
    ended: str
    version: str
    license: str
    parameters: Mapping[str, str]
    layout: Mapping[str, str]
    data: tuple[str, str] | None
    replaced: Mapping[str, str]


def metadata_of(facts: RunFacts, files: Sequence[CrateFile]) -> str:
    """Return the text of ro-crate-metadata.json; the same for the same run and files."""
    graph = [
        _descriptor(),
        _root(facts, files),
        *({"@id": link, "@type": "CreativeWork", "name": name, "version": no} for link, name, no in _PROFILES),
        *_license(facts),
        _workflow(facts, files),
        *_agents(facts),
        _action(facts, files),
        *_parameters(facts),
        *_outputs(files),
        *_data(facts),
        *_folders(files),
        *(_file(one, facts) for one in files if one.path != SCRIPT),
    ]
    return json.dumps({"@context": list(CONTEXT), "@graph": graph}, indent=2) + "\n"


def readme_of(facts: RunFacts, left_out: Mapping[str, str], shortened: Mapping[str, str]) -> str:
    """Return the text of README.md: what the crate holds, what it lacks and why, and what its names stand for.

    ``left_out``, ``shortened``: path -> the reason, and what of it is here.
    """
    lines = [
        f"# {facts.label}",
        "",
        f"{_description(facts)} Written by hpclaunch {facts.version}; `{METADATA}` describes every file.",
        "",
        f"- `{SCRIPT}`: {_HELD[SCRIPT]}; `hpclaunch.sh`: {_HELD['hpclaunch.sh']}",
        f"- `{CODE}`: the code of the job, without the training library, which is part of hpclaunch {facts.version}",
        f"- `{METRICS}`: {_HELD[METRICS]}"
        + (f". Of this long file: {shortened[METRICS]}" if METRICS in shortened else ""),
        "",
        "Values of variables (`export NAME=…`, `--env`) are left out, except those of known settings such as",
        "`OMP_NUM_THREADS`. What the program itself printed, and arguments that were typed for it, are as they were.",
    ]
    cut = {path: what for path, what in shortened.items() if path != METRICS}
    if cut:
        lines += ["", "Only a part of these files is here:", ""]
        lines += [f"- {_quote_path(path)}: {what}" for path, what in sorted(cut.items())]
    if left_out:
        lines += ["", "These files of the run are not here:", ""]
        lines += [f"- {_quote_path(path)}: {reason}" for path, reason in sorted(left_out.items())]
    if facts.replaced:
        lines += ["", "Folders of the machine are replaced by names:", ""]
        lines += [f"- `{name}`: {what}" for name, what in facts.replaced.items()]
    return "\n".join(lines) + "\n"


def _quote_path(path: str) -> str:
    """Return a path as Markdown shows it, however it is spelled: control characters as escapes."""
    plain = path.encode("unicode_escape").decode("ascii").replace("`", "'")
    return f"`{plain}`"


def _description(facts: RunFacts) -> str:
    size = ", ".join(f"{name} {value}" for name, value in facts.layout.items())
    return f"A run of {facts.job} at {facts.site} ({size}); it ended as {facts.state}."


def _link(name: str) -> Entity:
    return {"@id": name}


def _links(names: Sequence[str]) -> list[Entity] | Entity:
    """Return links; a single one alone, as RO-Crate recommends."""
    return _link(names[0]) if len(names) == 1 else [_link(name) for name in names]


def _descriptor() -> Entity:
    about = [_link(_CRATE), _link(_PROFILES[2][0])]
    return {"@id": METADATA, "@type": "CreativeWork", "about": _link("./"), "conformsTo": about}


def _root(facts: RunFacts, files: Sequence[CrateFile]) -> Entity:
    parts = [one.path for one in files if "/" not in one.path] + [str(folder["@id"]) for folder in _folders(files)]
    mentioned = [_ACTION, _PROGRAM, *(["#data"] if facts.data else [])]
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": facts.label,
        "description": _description(facts),
        "datePublished": facts.ended,
        "license": _link(_license_link(facts)),
        "author": _link(_PERSON),
        "conformsTo": _links([link for link, _, _ in _PROFILES]),
        "hasPart": _links(parts),
        "mainEntity": _link(SCRIPT),
        "mentions": _links(mentioned),
    }


def _license_link(facts: RunFacts) -> str:
    if not facts.license:
        return _NO_LICENSE
    return facts.license if "://" in facts.license else f"https://spdx.org/licenses/{facts.license}"


def _license(facts: RunFacts) -> list[Entity]:
    entity = {"@id": _license_link(facts), "@type": "CreativeWork", "name": facts.license or "no license was named"}
    without = "The author named no license, so all rights are reserved."
    return [{**entity, "description": f"The license of this crate: {facts.license}." if facts.license else without}]


def _workflow(facts: RunFacts, files: Sequence[CrateFile]) -> Entity:
    script = next(one for one in files if one.path == SCRIPT)
    return {
        **_file(script, facts),
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": f"{facts.job} at {facts.site}",
        "conformsTo": _link(_WORKFLOW),
        "version": facts.version,
        "programmingLanguage": _link(_BASH),
        "creator": _link(_PERSON),
        "author": _link(_PERSON),
        "license": _link(_license_link(facts)),
        "softwareRequirements": _link(_PROGRAM),
        "input": _links([f"#parameter-{name}" for name in (*facts.parameters, *facts.layout)]),
        "output": _links([str(entity["@id"]) for entity in _outputs(files)]),
    }


def _agents(facts: RunFacts) -> list[Entity]:
    bash = {"@id": _BASH, "@type": "ComputerLanguage", "name": "Bash", "alternateName": "bash"}
    address = "https://www.gnu.org/software/bash/"
    return [
        {**bash, "identifier": _link(address), "url": _link(address)},
        {"@id": _PERSON, "@type": "Person", "name": facts.user or "unknown"},
        {
            "@id": _PROGRAM,
            "@type": "SoftwareApplication",
            "name": "hpclaunch",
            "softwareVersion": facts.version,
            "description": "generates the script of a run, and submits it",
        },
    ]


def _action(facts: RunFacts, files: Sequence[CrateFile]) -> Entity:
    paths = {one.path for one in files}
    results = [METRICS] if METRICS in paths else []
    results += [MODEL] if any(path.startswith(MODEL) for path in paths) else []
    inputs = [f"#value-{name}" for name in (*facts.parameters, *facts.layout)] + (["#data"] if facts.data else [])
    inputs += [CODE] if any(path.startswith(CODE) for path in paths) else []
    completed = facts.state == "COMPLETED"
    entity: Entity = {
        "@id": _ACTION,
        "@type": "CreateAction",
        "name": f"run {facts.label}",
        "description": facts.command,
        "instrument": _link(SCRIPT),
        "agent": _link(_PERSON),
        "object": _links(inputs),
        "result": _links(results),
        **({"startTime": facts.began} if facts.began else {}),
        "endTime": facts.ended,
        "actionStatus": f"http://schema.org/{'Completed' if completed else 'Failed'}ActionStatus",
    }
    return entity if completed else {**entity, "error": facts.error or facts.state}


def _parameters(facts: RunFacts) -> list[Entity]:
    """Return the slots of the workflow, and the values that the run had in them."""
    found: list[Entity] = []
    for name, value in {**facts.parameters, **facts.layout}.items():
        slot = {"@id": f"#parameter-{name}", "@type": "FormalParameter", "name": name, "additionalType": _type(value)}
        found.append({**slot, "conformsTo": _link(_PARAMETER), "workExample": _link(f"#value-{name}")})
        realized = {"@id": f"#value-{name}", "@type": "PropertyValue", "name": name, "value": value}
        found.append({**realized, "exampleOfWork": _link(f"#parameter-{name}")})
    named = {"FormalParameter": _PARAMETER, "ComputationalWorkflow": _WORKFLOW}
    profiles = [{"@id": link, "@type": "CreativeWork", "name": name} for name, link in named.items()]
    return [*found, *({**profile, "version": "1.0-RELEASE"} for profile in profiles)]


def _type(value: str) -> str:
    """Return the type of schema.org that a parameter's text has."""
    if value in ("true", "false"):
        return "Boolean"
    for name, read in (("Integer", int), ("Float", float)):
        try:
            read(value)
        except ValueError:
            continue
        return name
    return "Text"


def _outputs(files: Sequence[CrateFile]) -> list[Entity]:
    """Return the slots of what the run wrote."""
    paths = [one.path for one in files]
    found = [("metrics", "File", METRICS)] if METRICS in paths else []
    found += [("model", "Dataset", MODEL)] if any(path.startswith(MODEL) for path in paths) else []
    return [
        {
            "@id": f"#output-{name}",
            "@type": "FormalParameter",
            "name": name,
            "additionalType": kind,
            "conformsTo": _link(_PARAMETER),
            "workExample": _link(path),
        }
        for name, kind, path in found
    ]


def _data(facts: RunFacts) -> list[Entity]:
    """Return the data set that the run read, which is no part of the crate."""
    if facts.data is None:
        return []
    name, fingerprint = facts.data
    words = (
        f"read by the run, and not part of this crate; fingerprint {fingerprint}" if fingerprint else "read by the run"
    )
    return [{"@id": "#data", "@type": "CreativeWork", "name": name, "description": words}]


def _folders(files: Sequence[CrateFile]) -> list[Entity]:
    """Return the folders at the root of the crate, each with all files below it."""
    below: dict[str, list[str]] = {}
    for one in files:
        if "/" in one.path:
            below.setdefault(f"{one.path.split('/')[0]}/", []).append(one.path)
    titles = {CODE: "the code of the job", MODEL: "the trained model", "logs/": "what the run printed"}
    names = {"@type": "Dataset"}
    found: list[Entity] = []
    for path, parts in below.items():
        entity: Entity = {"@id": path, **names, "name": path.rstrip("/"), "description": titles.get(path, path)}
        if path == MODEL:
            entity["exampleOfWork"] = _link("#output-model")
        if path == "logs/":
            entity["about"] = _link(_ACTION)
        found.append({**entity, "hasPart": _links([_uri_of(part) for part in parts])})
    return found


def _file(one: CrateFile, facts: RunFacts) -> Entity:
    entity: Entity = {
        "@id": _uri_of(one.path),
        "@type": "File",
        "name": one.path,
        "contentSize": str(one.size),
        "sha256": one.sha256,
    }
    suffix = one.path[one.path.rfind(".") :] if "." in one.path else ""
    entity["encodingFormat"] = _ENCODINGS.get(suffix, "application/octet-stream")
    if one.path == README:
        entity["about"] = _link("./")
    words = _HELD.get(one.path, "")
    changed = "folders are replaced by names, and values of variables left out (README.md)" if one.changed else ""
    if words or changed:
        entity["description"] = "; ".join(filter(None, (words, changed)))
    if one.path == METRICS:
        entity["exampleOfWork"] = _link("#output-metrics")
    return entity


def _uri_of(path: str) -> str:
    """Return a path as a relative URI."""
    from urllib.parse import quote  # imports more than the rest of this module

    return quote(path)
