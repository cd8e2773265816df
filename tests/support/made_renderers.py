"""Real tokenizers made on the spot, with the chat templates of model families."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.model.rendering import TemplateRenderer
from astuner_devkit import tiny_tokenizer

TEMPLATES = Path(__file__).parents[2] / "astuner-core" / "tests" / "rendering" / "templates"


def build_tokenizer(template: str = "chatml") -> Any:
    path = TEMPLATES / f"{template}.jinja"
    return tiny_tokenizer(path.read_text() if path.exists() else None)


@pytest.fixture(scope="session")
def make_renderer() -> Callable[[str], TemplateRenderer]:
    made: dict[str, TemplateRenderer] = {}

    def make(template: str) -> TemplateRenderer:
        if template not in made:
            made[template] = TemplateRenderer(build_tokenizer(template))
        return made[template]

    return make


@pytest.fixture(scope="session")
def renderer(make_renderer: Callable[[str], TemplateRenderer]) -> TemplateRenderer:
    return make_renderer("chatml")
