"""The vendored libraries are those that the manifest names, byte for byte, and reach for nothing else."""

import hashlib
import json
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
VENDOR = PACKAGE / "src/astuner_logview/static/vendor"
MANIFEST = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))
HASHES = {name: digest for about in MANIFEST.values() for name, digest in about["sha256"].items()}


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_vendored_file_has_the_hash_of_the_manifest(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == HASHES[name]


def test_every_vendored_file_is_in_the_manifest() -> None:
    assert {path.name for path in VENDOR.iterdir() if not path.name.endswith(".d.ts")} == {*HASHES, "manifest.json"}


@pytest.mark.parametrize("package", sorted(MANIFEST))
def test_a_vendored_package_comes_with_its_licence(package: str) -> None:
    about = MANIFEST[package]

    assert about["licence"] in {"MIT", "Apache-2.0"}
    assert (VENDOR / about["licence_file"]).stat().st_size > 500


@pytest.mark.parametrize("name", sorted(name for name in HASHES if name.endswith(".js")))
def test_a_vendored_module_imports_only_its_neighbours(name: str) -> None:
    text = (VENDOR / name).read_text(encoding="utf-8")

    imports = re.findall(r"""\bfrom ?["']([^"'\s]+)["']""", text)

    assert all((VENDOR / path).exists() and path.startswith("./") for path in imports)
    assert "sourceMappingURL" not in text


def test_versions_are_those_of_package_json() -> None:
    wanted = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))["devDependencies"]

    assert {name: about["version"] for name, about in MANIFEST.items()} == {name: wanted[name] for name in MANIFEST}
