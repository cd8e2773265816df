"""The pages for people who come from other frameworks: every name of ours exists, and the agents play."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from runs_on_disk import record

import astuner
from astuner.contract.protocols.workflow import Tuner, Workflow
from astuner.contract.schema import Task, Verdict, WorkflowOutput, WorkflowTask
from astuner.runs.store.store_lines import read_records
from astuner.settings.config.schema_keys import walk_schema
from astuner.shared.known_packages import read_known_packages
from astuner_devkit.command_line import run_command
from astuner_devkit.project import write_tokenizer

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted((REPOSITORY / "docs" / "coming_from").glob("*.md"))
INDEX = REPOSITORY / "docs" / "coming_from.md"
KNOWN_PACKAGES = REPOSITORY / "astuner-core" / "src" / "astuner" / "shared" / "known_packages.toml"

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"# (\w+\.(?:py|yaml))\n")
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)
TABLE = re.compile(r"^\| there \| here \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
KEY = re.compile(r"[a-z_]+(?:\.[a-z_]+)*(?:\.\*)?")
CALLS = re.compile(r"(\w+)\((\w*)[^)]*\)")

TASKS = [{"main_query": "What is 2 + 3?", "answer": "5"}]
REPLY = "5"
ASKED = {"role": "user", "content": "What is 2 + 3?"}
SYSTEM = {"role": "system", "content": "Answer with a number."}
TRUTH = {"reward_model": {"style": "rule", "ground_truth": "5"}, "data_source": "openai/gsm8k", "ability": "math"}
FORMS: dict[str, list[dict[str, Any]]] = {
    "plain": TASKS,
    "verl": [
        {**TRUTH, "prompt": [ASKED], "extra_info": {"index": 0, "split": "train"}},
        {**TRUTH, "prompt": [SYSTEM, ASKED], "extra_info": {"index": 0, "split": "train"}},
    ],
    "trl": [
        {"prompt": "What is 2 + 3?", "answer": "5"},
        {"prompt": [ASKED], "answer": "5"},
        {"prompt": [SYSTEM, ASKED, {"role": "assistant", "content": "6"}, ASKED], "answer": "5"},
    ],
}
"""Rows as the data sets of each trainer have them."""
VALUES = {"text", "breakpoint()", "compute_reward", "observe", "step", "reset", "evaluate", "execute", "tools", "True", "None"}
"""What a cell may name besides: values of keys that stand before them, methods of a user's class, and Python itself."""
FREE = {"services", "plugins.options"}
"""Where the names are the user's."""
OPTIONS = {"--backbone", "--conf", "--set", "--resume", "--resume-from", "--with", "--with-ray", "--dry-run"}


def list_components() -> set[str]:
    kinds = tomllib.loads(KNOWN_PACKAGES.read_text(encoding="utf-8"))["components"].values()
    return {name for kind in kinds for name in kind} | {"customized_protocol", "scripted"}


def list_cells(page: Path) -> list[str]:
    """Return what stands in backticks on the side of astuner, of every table with two sides."""
    tables = TABLE.findall(page.read_text(encoding="utf-8"))
    assert tables, f"{page.name} has no table with the columns 'there' and 'here'"
    sides = [ROW.fullmatch(row) for table in tables for row in table.splitlines()]
    assert all(sides), f"{page.name}: a row does not have two cells"
    return [text for side in sides if side for text in re.findall(r"`([^`]+)`", _split(side[0])[1])]


def _split(row: str) -> list[str]:
    """Return the cells of a row; a bar inside of backticks is part of its cell."""
    hidden = re.sub(r"`[^`]*`", lambda code: code[0].replace("|", "\0"), row)
    return [cell.strip().replace("\0", "|") for cell in hidden.strip("|").split("|")]


def is_key(text: str) -> bool:
    path, _, _ = text.partition(": ")
    if not KEY.fullmatch(path):
        return False
    return any(_fits(path.removesuffix(".*"), known) for known in walk_schema())


def _fits(path: str, known: str) -> bool:
    """Whether a path is a key, a section of keys, or an option of a component, or lies where names are free."""
    known = known.replace("[]", "")
    open_at = known.removesuffix(".*")
    if known == open_at or not f"{path}.".startswith(f"{open_at}."):
        return known == path or known.startswith(f"{path}.")
    further = path.removeprefix(open_at).strip(".")
    return not further or open_at in FREE or further.partition(".")[0] in COMPONENTS


def has_attribute(text: str) -> bool:
    """Whether `astuner.run`, `tuner.as_…`, `workflow_task.task.main_query`, `WorkflowOutput(reward)` and the like exist."""
    if call := CALLS.fullmatch(text):
        kinds = {"WorkflowOutput": WorkflowOutput, "Verdict": Verdict}
        return call[1] in kinds and call[2] in {item.name for item in attrs.fields(kinds[call[1]])}
    first, *rest = text.split(".")
    if first == "workflow_task":
        kind: Any = WorkflowTask
        for name in rest:
            if name not in {item.name for item in attrs.fields(kind)} and not isinstance(getattr(kind, name, None), property):
                return False
            kind = Task
        return bool(rest)
    roots = {"astuner": astuner, "tuner": Tuner, "Workflow": Workflow}
    if first not in roots or not rest:
        return False
    found: Any = roots[first]
    for name in rest:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def is_command(text: str) -> bool:
    words = text.split()
    return words[0] == "astuner" and len(words) > 1 and words[1] in list_commands()


def is_native(text: str) -> bool:
    """Whether it is a section of a backbone's own keys, as in `verl: {…}`."""
    return re.match(r"(verl|trinity|local):( \{|$)", text) is not None


@cache
def list_commands() -> set[str]:
    """Return the commands that are installed here, and those of our other packages."""
    with TemporaryDirectory() as home:
        installed = set(re.findall(r"^ +([a-z-]+) ", run_command("--help", cwd=Path(home)).out, re.MULTILINE))
    return installed.union(read_known_packages().names("command"))


COMPONENTS = list_components()


def is_known(text: str) -> bool:
    return (
        is_key(text)
        or has_attribute(text)
        or is_command(text)
        or is_native(text)
        or text in COMPONENTS | VALUES | OPTIONS
        or re.fullmatch(r"[\w./]+\.(py|yaml|jsonl|md)", text) is not None
    )


def list_ours(page: Path) -> dict[str, str]:
    blocks = [text for _, text in BLOCK.findall(page.read_text(encoding="utf-8"))]
    return {found[1]: text for text in blocks if (found := OURS.match(text))}


def test_there_is_a_page_for_each_framework():
    names = {page.stem for page in PAGES}
    assert names == {"agentjet", "agentscope_tune", "trinity", "verl", "trl", "agent_lightning", "rllm"}
    assert set(re.findall(r"\]\(coming_from/(\w+)\.md\)", INDEX.read_text(encoding="utf-8"))) == names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_tables_name_on_our_side_exists(page: Path):
    cells = list_cells(page)
    assert len(cells) >= 20
    assert [text for text in cells if not is_known(text)] == []


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("rollout.num_repeat", True),
        ("rollout.num_repeat: 8", True),
        ("task_judge.rubrics_auto_grader.*", True),
        ("trainer_common.algorithm", True),
        ("rollout.num_repeats", False),
        ("rollout.gradient", False),
        ("astuner.run", True),
        ("astuner.train", False),
        ("astuner run", True),
        ("astuner learn", False),
        ("tuner.as_agentscope_model", True),
        ("tuner.as_model", False),
        ("workflow_task.task.main_query", True),
        ("workflow_task.main_query", False),
        ("WorkflowOutput(reward)", True),
        ("WorkflowOutput(score)", False),
        ("Verdict(components)", True),
        ("sglang_rollout", False),
    ],
)
def test_a_name_is_known_if_it_exists(text: str, known: bool):
    assert is_known(text) is known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_agent_of_a_page_plays_an_episode(page: Path, tmp_path: Path):
    ours = list_ours(page)
    assert {"agent.py", "tune.yaml"} <= set(ours)
    for name, text in ours.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    kind = page.stem if page.stem in FORMS else "plain"
    for name in ("train.jsonl", "train.parquet", "test.parquet"):
        write_rows(tmp_path / name, FORMS[kind][-1])
    finished, episodes = play_page(tmp_path)
    assert [episode["failures"] for episode in episodes] == [[]] * len(episodes)
    assert re.search(r"/0: reward 1\b", finished.out + finished.err)


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.parquet"])
@pytest.mark.parametrize(("name", "form"), [(name, form) for name in ("verl", "trl") for form in range(len(FORMS[name]))])
def test_the_agent_of_a_page_asks_what_a_row_of_that_trainer_asks(name: str, form: int, file: str, tmp_path: Path):
    row = FORMS[name][form]
    for ours, text in list_ours(REPOSITORY / "docs" / "coming_from" / f"{name}.md").items():
        # As in TRL, the completions of prompts that are texts are texts, and those of conversations are lists of messages.
        text = text.replace('reply[0]["content"]', "reply") if isinstance(row["prompt"], str) else text
        (tmp_path / ours).write_text(text, encoding="utf-8")
    write_rows(tmp_path / file, row)
    finished, [episode, *_] = play_page(tmp_path, file)
    said = row["prompt"] if isinstance(row["prompt"], list) else [{"role": "user", "content": row["prompt"]}]
    assert [dict(message) for message in episode["calls"][0]["messages"]] == said
    assert episode["task"]["main_query"] == "What is 2 + 3?"
    assert re.search(r"/0: reward 1\b", finished.out + finished.err)


def write_rows(path: Path, *rows: dict[str, Any]) -> None:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def play_page(home: Path, file: str | None = None) -> tuple[Any, list[dict[str, Any]]]:
    """Play the agent of a page for its first task; return the command, and the episodes."""
    write_tokenizer(home / "model")
    files = [f"task_reader.dataset_file.{split}.file_path=./{file}" for split in ("training", "validation") if file is not None]
    settings = [
        *files,
        "model.path=./model",
        "backbone=debug",
        "experiment_name=page",
        "rollout.name=scripted",
        f"rollout.scripted.replies={json.dumps([REPLY])}",
        "debug.debug_first_n_tasks=1",
    ]
    finished = run_command("run", "--conf", "tune.yaml", *(f"--set={text}" for text in settings), cwd=home)
    assert finished.code == 0, finished.err
    store = record(home, "page.debug") / "episodes" / "train.jsonl"
    episodes = [entry["episode"] for _, entry in read_records(store) if entry["kind"] == "episode"]
    assert episodes
    return finished, episodes
