"""Writes the bill of materials of each package, `sbom.cdx.json` (CycloneDX): what its wheel holds, and what it requires.

The build puts it into the wheel, at `*.dist-info/sboms/` (PEP 770). It names no versions of requirements: those are the
installer's choice, and the files in `constraints/` have the tested ones.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
NAME = "sbom.cdx.json"


def folders() -> list[Path]:
    """Return the folders of all packages."""
    return [ROOT / "astuner-core", *sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))]


def build_document(folder: Path) -> str:
    """Return the bill of materials of a package."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = {**_component(f"pkg:pypi/{project['name']}@{project['version']}", project["name"]), "version": project["version"]}
    own |= {"description": project["description"], "licenses": [{"license": {"id": project["license"]}}]}
    parts = [*_vendored(folder), *_required(project)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": sorted(part["bom-ref"] for part in parts)}],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _component(purl: str, name: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl}


def _required(project: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a component for each requirement; those of extras are optional."""
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    required: dict[str, list[str]] = {}
    for line in [*project.get("dependencies", ()), *extras]:
        required.setdefault(canonicalize_name(Requirement(line).name), []).append(line)
    always = {canonicalize_name(Requirement(line).name) for line in project.get("dependencies", ())}
    for name in sorted(required):
        asked = [{"name": "astuner:requirement", "value": line} for line in dict.fromkeys(required[name])]
        scope = "required" if name in always else "optional"
        yield {**_component(f"pkg:pypi/{name}", name), "scope": scope, "properties": asked}


def _vendored(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a component for each library whose files lie in the package."""
    for manifest in sorted(folder.glob("src/**/vendor/manifest.json")):
        for name, package in sorted(json.loads(manifest.read_text(encoding="utf-8")).items()):
            found = _component(f"pkg:npm/{name.replace('@', '%40')}@{package['version']}", name)
            yield {**found, "version": package["version"], "licenses": [{"license": {"id": package["licence"]}}]}


if __name__ == "__main__":
    for package in folders():
        (package / NAME).write_text(build_document(package), encoding="utf-8")
