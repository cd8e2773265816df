"""Writes the project: the files of `project/` as they are, the tasks, and the schema of the configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from random import Random

from astuner.contract.errors import UsageError
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.shared.install_hints import command_for
from astuner_local.quickstart.shop.write_data import write_tasks
from astuner_local.tiny.arithmetic import HELD_OUT, SHOWN, distinct_questions

TRAINING_TASKS = 320
VALIDATION_TASKS = 64

SCHEMA = "astuner.schema.json"
"""The file that the first line of `tune.yaml` names."""
WRITER = "config_schema"
"""The function of another package that makes its text."""

SEED_LINE = "  seed: 0\n"
LOGGER_LINE = "    logger: [console]\n"
MODEL_SLOT = "MODEL"
"""The slots in the template of `tune.yaml`."""

CHARTS = "tensorboard"
"""The logger that draws curves, without an account and without a server while the run runs."""


def check_free(directory: Path) -> None:
    """Raise `UsageError` unless a project can be written here without touching existing files."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory}: this is a file; name a directory that is new or empty")
    found = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
    if found:
        others = f", beside {len(found) - 1} more" if len(found) > 1 else ""
        raise UsageError(f"{directory}: '{found[0]}' is in the way{others}; name a directory that is new or empty")


def write_project(directory: Path, seed: int, *, charts: bool = False) -> None:
    """Write everything but the model; `charts` adds the logger that draws curves, if `can_draw_charts`."""
    _write_files(directory, "project", seed, charts=charts)
    tasks = directory / "tasks"
    tasks.mkdir()
    random = Random(seed)
    _write_tasks(tasks / "train.jsonl", random, SHOWN, TRAINING_TASKS)
    _write_tasks(tasks / "validation.jsonl", random, HELD_OUT, VALIDATION_TASKS)


def write_shop(directory: Path, seed: int, model: str, *, charts: bool = False) -> None:
    """Write the project whose agent has a pretrained model, `model` as a YAML can have it; `charts` as in `write_project`."""
    _write_files(directory, "shop", seed, charts=charts, model=model)
    tasks = directory / "tasks"
    tasks.mkdir()
    write_tasks(tasks, seed)


def _write_files(directory: Path, project: str, seed: int, *, charts: bool, model: str = "") -> None:
    for template in resources.files(__package__).joinpath(project).iterdir():
        if template.is_file():
            (directory / template.name).write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    configuration = directory / "tune.yaml"
    text = configuration.read_text(encoding="utf-8").replace(SEED_LINE, f"  seed: {seed}\n")
    if charts:
        text = text.replace(LOGGER_LINE, f"    logger: [console, {CHARTS}]\n")
    # JSON is YAML, whatever is in the path.
    configuration.write_text(text.replace(MODEL_SLOT, json.dumps(model, ensure_ascii=False)), encoding="utf-8")
    _write_schema(directory / SCHEMA)


def can_draw_charts() -> bool:
    """Whether the logger that draws curves is installed, with its library."""
    found = Catalog.discover(kinds=["logger"]).map_spellings("logger").get(CHARTS)
    return found is not None and not found.missing


def _write_schema(file: Path) -> None:
    catalog = Catalog.discover(kinds=["function"])
    if not catalog.offers("function", WRITER):
        remedy = f"{command_for('function', WRITER)}, then astuner config schema --out {file.name}"
        print(f"{file.name} is left out, with which an editor checks the YAML: {remedy}", file=sys.stderr)
        return
    build = load(catalog.find("function", WRITER, config_dir=file.parent, key=file.name))
    file.write_text(build(on_broken=_say), encoding="utf-8")


def _say(broken: str) -> None:
    print(f"not in {SCHEMA}: {broken}", file=sys.stderr)


def _write_tasks(file: Path, random: Random, numbers: Sequence[int], count: int) -> None:
    rows = [
        {"task_id": f"{file.stem}-{index:03}", "main_query": question.text, "answer": str(question.answer)}
        for index, question in enumerate(distinct_questions(random, numbers, count))
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
