"""The chat template that a configuration gives: a file, of which the text is kept, or the text itself."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from astuner.settings.config.paths import resolve_path

LONGEST_SHOWN = 200
_MARKERS = re.compile(r"{%-?\s*(?:end)?generation\s*-?%}")
"""A tag of transformers, which jinja2 alone does not know."""


def read_chat_template(value: str, config_dir: Path) -> str:
    """Return the text of a template; the absolute path of a file that cannot be read, which `explain_bad_template` describes."""
    if not _is_path(value):
        return value
    file = resolve_path(value, config_dir)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return str(file)
    return str(file) if _is_path(text) else text


def explain_bad_template(text: str) -> str | None:
    """Return why a template cannot be used, in a sentence with a remedy; None if nothing is wrong with its form."""
    if _is_path(text):
        why = "it is not a template of Jinja in UTF-8: nothing is put in" if os.path.isfile(text) else "there is no such file"
        return f"{text[:LONGEST_SHOWN]}: {why}. Give the file of a template, such as ./chat_template.jinja, or its text."
    if find_spec("jinja2") is None:
        return None
    from jinja2 import Environment, TemplateSyntaxError

    try:
        Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=False).from_string(_MARKERS.sub("", text))
    except TemplateSyntaxError as error:
        return f"line {error.lineno} of the template: {str(error.message).rstrip('.')}. Repair it: jinja2 cannot read it."
    return None


def _is_path(value: str) -> bool:
    """A template without an expression shows no message."""
    return "{{" not in value and "{%" not in value
