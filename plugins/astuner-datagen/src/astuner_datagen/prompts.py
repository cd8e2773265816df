"""The prompts that ask for questions and test them, each in English and Chinese."""

from __future__ import annotations

from astuner.shared.clients import Prompt, load_prompt
from astuner_datagen.languages import Language

NAMES = ("knowledge", "augment", "answer", "compare")


def load_question_prompt(name: str, language: Language) -> Prompt:
    """Return the prompt in `prompts/{name}.{language}.txt`."""
    return load_prompt("astuner_datagen", name, language)
