"""Validates an RO-Crate with rocrate-validator (PyPI: roc-validator), without network: ``crate_validator.py FOLDER``.

It prints the findings up to the severity RECOMMENDED, one a line, and the number of checks. The two JSON-LD contexts of
a crate are published on w3id.org. Here are their terms that a crate of hpclaunch uses; any other term is a failure.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

from requests import Response
from requests.adapters import HTTPAdapter
from rocrate_validator import models, services

SCHEMA = (
    *("about", "actionStatus", "additionalType", "agent", "alternateName", "author", "contentSize", "creator"),
    *("datePublished", "description", "encodingFormat", "endTime", "error", "exampleOfWork", "hasPart", "identifier"),
    *("instrument", "license", "mainEntity", "mentions", "name", "object", "programmingLanguage", "result"),
    *("softwareRequirements", "softwareVersion", "startTime", "url", "value", "version", "workExample"),
    *("ComputerLanguage", "CreateAction", "CreativeWork", "Dataset", "Person", "PropertyValue"),
    *("SoftwareApplication", "SoftwareSourceCode"),
)
CRATE = {name: f"http://schema.org/{name}" for name in SCHEMA} | {
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    "input": "https://bioschemas.org/ComputationalWorkflow#input",
    "output": "https://bioschemas.org/ComputationalWorkflow#output",
}
CONTEXTS = {
    "https://w3id.org/ro/crate/1.1/context": CRATE,
    "https://w3id.org/ro/terms/workflow-run/context": {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"},
}


def unknown_terms(crate: Path) -> list[str]:
    """The names in the crate's metadata that neither context has here."""
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    known = {name for terms in CONTEXTS.values() for name in terms}
    used = {name for entity in graph for name in entity if not name.startswith("@")}
    for entity in graph:
        kinds = entity["@type"]
        used.update(kinds if isinstance(kinds, list) else [kinds])
    return sorted(used - known)


def published(_: HTTPAdapter, request: Any, *rest: Any, **named: Any) -> Response:
    """What w3id.org answers: the contexts above."""
    answer, found = Response(), CONTEXTS.get(request.url)
    answer.request, answer.url, answer.status_code = request, request.url, 200 if found else 404
    answer.headers["Content-Type"] = "application/ld+json"
    answer.raw = io.BytesIO(json.dumps({"@context": found}).encode())
    return answer


def main(crate: Path) -> None:
    for name in unknown_terms(crate):
        print(f"unknown term {name}")
    settings = services.ValidationSettings(
        rocrate_uri=str(crate),
        profile_identifier="workflow-run-crate",
        requirement_severity=models.Severity.RECOMMENDED,
        skip_availability_check=True,
        no_cache=True,
    )
    HTTPAdapter.send = published  # the validator's own network
    result = services.validate(settings)
    for issue in result.get_issues():
        print(f"{issue.severity.name} {issue.check.identifier}: {issue.message}")
    print(f"{len(result.executed_checks)} checks, passed {result.passed()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
