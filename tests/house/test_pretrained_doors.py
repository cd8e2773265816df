"""Every model, configuration and tokenizer that the product loads is loaded without code of its own and without pickles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SOURCES = sorted([*CHECKOUT.glob("astuner-core/src/**/*.py"), *CHECKOUT.glob("plugins/*/src/**/*.py")])
OURS = ("PeftModel",)
"""Whose `from_pretrained` loads no code; `check_model_files` keeps pickles from it."""


def find_doors(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained":
            yield ast.unparse(node.func.value), node


def is_given(call: ast.Call, name: str, value: bool) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is value for k in call.keywords)


@pytest.mark.parametrize("path", [path for path in SOURCES if "from_pretrained" in path.read_text()], ids=lambda path: path.stem)
def test_a_door_names_what_it_does_not_load(path: Path) -> None:
    for kind, call in find_doors(ast.parse(path.read_text(encoding="utf-8"))):
        if kind in OURS:
            continue
        assert is_given(call, "trust_remote_code", False), f"{path}:{call.lineno}"
        if "Model" in kind or kind == "kind":
            assert is_given(call, "use_safetensors", True), f"{path}:{call.lineno}"


def test_no_weights_are_unpickled() -> None:
    assert [f"{path}" for path in SOURCES if "torch.load(" in path.read_text()] == []
