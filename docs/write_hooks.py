"""Writes `hooks.md`: each hook with its signature, when and where it is called, and a running example."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

from attrs import frozen

from astuner import hookimpl
from astuner.hookspecs import SPECS
from astuner.plugins.catalog import Catalog
from astuner.plugins.extension import DECIDING
from astuner.plugins.hooks import Hooks
from astuner.plugins.tracing import VARIABLE

HERE = Path(__file__).parent
EXAMPLES = HERE / "examples" / "hooks"
LABELS = ("When", "Where")
"""What the docstring of every hook says, each in a line of its own."""


@frozen(kw_only=True)
class Hook:
    """One hook, read off its spec."""

    name: str
    signature: str
    """Exact, with the types and without `self`."""
    about: str
    when: str
    where: str

    @property
    def sort(self) -> str:
        """Whether it decides, or tells."""
        return "deciding" if self.name.startswith(DECIDING) else "event"


def hooks() -> list[Hook]:
    """Return every hook, in the order of the specs."""
    return [_hook(name, spec) for specs in SPECS for name, spec in vars(specs).items() if name.startswith("astuner_")]


def examples() -> Mapping[str, list[Path]]:
    """Return the examples of each hook: the files with a method of its name."""
    found: dict[str, list[Path]] = {}
    for file in sorted(EXAMPLES.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("astuner_"):
                found.setdefault(node.name, []).append(file)
    return found


def document() -> str:
    """Return the whole page."""
    head = (HERE / "hooks_head.md").read_text(encoding="utf-8").replace("{trace}", _trace()).rstrip()
    return "\n".join([head, "", "## All hooks", "", *_overview(), *_details(), ""])


def _hook(name: str, spec: Callable[..., object]) -> Hook:
    text = inspect.cleandoc(spec.__doc__ or "")
    said = dict(re.findall(r"^(When|Where): (.*?)(?=\n\S+: |\Z)", text, re.MULTILINE | re.DOTALL))
    if set(said) != set(LABELS):
        raise ValueError(f"the docstring of {name} must say {' and '.join(LABELS)}")
    when, where = (_sentence(said[label]) for label in LABELS)
    return Hook(
        name=name, signature=_signature(name, spec), about=" ".join(text.partition("\n\n")[0].split()), when=when, where=where
    )


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[0].upper() + text[1:]


def _signature(name: str, spec: Callable[..., object]) -> str:
    found = inspect.signature(spec)
    without_self = [parameter for parameter in found.parameters.values() if parameter.name != "self"]
    arguments = ", ".join(f"{parameter.name}: {parameter.annotation}" for parameter in without_self)
    return f"{name}({arguments}) -> {found.return_annotation}"


def _overview() -> Iterator[str]:
    yield from ("| hook | sort | what |", "|---|---|---|")
    for hook in hooks():
        yield f"| [`{hook.name}`](#{hook.name}) | {hook.sort} | {hook.about} |".replace(" | None", " \\| None")


def _details() -> Iterator[str]:
    found, shown = examples(), dict[Path, str]()
    for hook in hooks():
        yield from (
            "",
            f"### `{hook.name}`",
            "",
            "```python",
            hook.signature,
            "```",
            "",
            f"{hook.about} *{hook.sort.capitalize()}.*",
            "",
        )
        yield from (f"* **When**: {hook.when}", f"* **Where**: {hook.where}", "")
        for file in found[hook.name]:
            link = f"[`{file.name}`](examples/hooks/{file.name})"
            if file in shown:
                yield f"Example: {link}, under [`{shown[file]}`](#{shown[file]})."
                continue
            shown[file] = hook.name
            yield from (f"Example, {link}:", "", "```python", file.read_text(encoding="utf-8").rstrip(), "```")


def _trace() -> str:
    """Return what tracing prints of one event with two listeners, of which one fails."""
    log = io.StringIO()
    with patch.dict(os.environ, {VARIABLE: "1"}), contextlib.redirect_stderr(log):
        made = Hooks(Catalog())
        made.register(_Hears(), "hook 'audit' from acme-audit 1.0 (acme_audit:Audit)")
        made.register(_Fails(), "hook 'mail' from acme-mail 2.1 (acme_mail:Mail)")
        made.tasks_read("train", 100)
    return log.getvalue().rstrip()


class _Hears:
    @hookimpl
    def astuner_tasks_read(self, split: str) -> None:
        """Hear."""


class _Fails:
    @hookimpl
    def astuner_tasks_read(self) -> None:
        """Fail."""
        raise ConnectionError("no route to host")


if __name__ == "__main__":
    (HERE / "hooks.md").write_text(document(), encoding="utf-8")
