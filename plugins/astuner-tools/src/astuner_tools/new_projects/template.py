"""The files of a new project."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.atomic import write_directory

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ENVIRONMENT = "environment"
FILLED_IN = "tune.yaml"
ENDING = ".in"
"""Of template files that tools would otherwise take for code of this package."""
JUDGES: Mapping[str, str] = {
    "code": "./judge.py compares the answer with the task's",
    "math": "the judge `math` compares it as a number",
    "llm": "an LLM gives points, by the criteria in the YAML; it needs an API key",
}
_JUDGE_SECTIONS: Mapping[str, str] = {
    "code": '  task_judge:\n    judge_protocol: "./judge.py:RightPrice"\n',
    "math": "  task_judge:\n    judge_type: math                   # compares the answer with the `answer` of the task\n",
    "llm": (
        "  task_judge:\n    judge_type: llm                    # asks the API of OPENAI_BASE_URL and OPENAI_API_KEY\n"
        "    alien_llm_model: gpt-5-mini\n    llm:\n      mode: pointwise\n"
        "      criteria: The answer is the price that the shop names, and nothing else.\n"
    ),
}
_LEADS = '  environment:\n    environment_type: "./environment.py:Guessing"   # it gives the reward, too\n    leads: true\n'
_WORKFLOW = '    user_workflow: "./agent.py:PriceAgent"'


@frozen(kw_only=True)
class Framework:
    """What an agent is built with."""

    title: str
    packages: tuple[str, ...] = ()
    """What `pip install` gets."""
    module: str | None = None
    """One of its modules, by which it is found."""

    @property
    def is_installed(self) -> bool:
        """Whether it is here. Nothing is imported; releases are not compared."""
        return self.module is None or find_spec(self.module.partition(".")[0]) is not None


@cache
def read_frameworks() -> Mapping[str, Framework]:
    """Return all of them by the names that users type."""
    text = resources.files(__package__).joinpath("frameworks.toml").read_text(encoding="utf-8")
    return {
        name: Framework(title=row["title"], packages=tuple(row["packages"]), module=row.get("module"))
        for name, row in tomllib.loads(text).items()
    }


def check_free(directory: Path) -> None:
    """Raise `UsageError` unless a directory is new or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        what = "holds files" if directory.is_dir() else "is a file"
        raise UsageError(f"{directory}: this {what}, and nothing is overwritten: name a directory that is new or empty")


def write_project(directory: Path, framework: str, judge: str) -> list[str]:
    """Write a project into a directory that is new or empty, and return the paths in it."""
    files = fill_project(framework, judge, directory.resolve().name)
    with write_directory(directory) as made:
        for path, text in files.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_text(text, encoding="utf-8")
    return list(files)


def fill_project(framework: str, judge: str, name: str) -> Mapping[str, str]:
    """Return the texts of a project by path."""
    leads = framework == ENVIRONMENT
    sections = {
        "name": json.dumps(name, ensure_ascii=False),
        "judge": _LEADS if leads else _JUDGE_SECTIONS[judge],
        "player": "    multi_turn: {max_steps: 4}         # most actions of an episode" if leads else _WORKFLOW,
    }
    folder = resources.files(__package__).joinpath("files")
    texts = {**dict(_read(folder.joinpath("shared"))), **dict(_read(folder.joinpath(framework)))}
    unused = {"shop.py", "judge.py"} if leads else {"judge.py"} if judge != "code" else set()
    texts[FILLED_IN] = Template(texts[FILLED_IN]).substitute(sections)
    return {path: texts[path] for path in sorted(texts) if path not in unused}


def _read(folder: Traversable, start: str = "") -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _read(item, f"{start}{item.name}/")
        else:
            yield f"{start}{item.name.removesuffix(ENDING)}", item.read_text(encoding="utf-8")
