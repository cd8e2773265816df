"""Every configuration that the repository shows is one that the JSON Schema takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import REPOSITORY
from jsonschema import Draft7Validator
from page_commands import read_blocks

from astuner.settings.config.yaml_lines import read_yaml
from astuner.settings.plugins.catalog import Catalog
from astuner_tools.config_schema.json_schema import build_schema

EXAMPLES = [
    *REPOSITORY.glob("plugins/astuner-local/src/astuner_local/quickstart/*/tune.yaml"),
    *REPOSITORY.glob("tutorial/**/*.yaml"),
]
VALIDATOR = Draft7Validator(build_schema(Catalog(), native_roots=("verl", "trinity"), on_broken=print))


def list_errors(text: str, file: Path) -> list[Any]:
    return [error.message for error in VALIDATOR.iter_errors(read_yaml(text, file).values)]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_every_example_of_the_repository_validates(file: Path) -> None:
    assert list_errors(file.read_text(encoding="utf-8"), file) == []


def test_the_yaml_of_the_readme_validates() -> None:
    readme = REPOSITORY / "README.md"
    documents = read_blocks(readme, "yaml")
    assert documents
    assert [list_errors(document, readme) for document in documents] == [[]] * len(documents)
