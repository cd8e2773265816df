"""Wherever JSON that is not valid is expected, so is JSON that is nested too deep for Python: both come in files of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError
from astuner.runs.store.manifest import find_damage
from astuner.settings.config.adapters import ADAPTER_FILE, MANIFEST, read_adapters
from astuner.settings.memory_estimate.model_file import read_model_config

REPOSITORY = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for place in (REPOSITORY / "astuner-core/src", *REPOSITORY.glob("plugins/*/src"))
    for path in place.rglob("*.py")
    if "json.load" in path.read_text(encoding="utf-8")
)
DEEP = "[" * 200_000
INVALID = {"ValueError", "JSONDecodeError"}


def list_narrow_handlers(path: Path) -> Iterator[str]:
    """Yield the places at which invalid JSON is handled and deep JSON is not."""
    for block in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(block, ast.Try) or not any("json.load" in ast.unparse(statement) for statement in block.body):
            continue
        caught = {
            part.attr if isinstance(part, ast.Attribute) else part.id
            for handler in block.handlers
            if handler.type is not None
            for part in ast.walk(handler.type)
            if isinstance(part, ast.Attribute | ast.Name)
        }
        if caught & INVALID and not caught & {"RecursionError", "Exception", "BaseException"}:
            yield f"{path.relative_to(REPOSITORY)}:{block.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_what_handles_invalid_json_handles_deep_json_too(path: Path) -> None:
    assert list(list_narrow_handlers(path)) == []


def test_adapters_that_are_nested_too_deep_are_refused(tmp_path: Path) -> None:
    (tmp_path / ADAPTER_FILE).write_text(DEEP)
    with pytest.raises(ConfigError, match="does not describe LoRA adapters"):
        read_adapters(tmp_path)


def test_a_model_whose_description_is_nested_too_deep_has_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(DEEP)
    assert read_model_config(str(tmp_path), fetch=False) is None


@pytest.mark.parametrize("name", [MANIFEST, "config.json"])
def test_a_checkpoint_with_a_file_that_is_nested_too_deep_is_damaged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(DEEP)
    (damage,) = find_damage(tmp_path)
    assert damage.startswith(f"{name}: damaged")
