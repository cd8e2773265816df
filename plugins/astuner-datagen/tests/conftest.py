"""An LLM that a script plays: it asks for the facts in the document that it is shown, or writes tasks like a sample of sums."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.plugins.options import build_options
from astuner_datagen.reader import DataGenerationReader
from astuner_devkit.run_infos import run_info
from astuner_devkit.scripted_api import ScriptedApi, scripted_api

FACT = re.compile(r"The (\w+) of (\w+) is (\w+)\.")
ASKED_FOR = re.compile(r"Write (\d+) ")
ADDED = re.compile(r"What is (\d+) \+ (\d+)\?")


def questions(*rows: Mapping[str, Any]) -> str:
    """The text of an answer that holds these."""
    return json.dumps({"questions": rows})


def shown(prompt: str) -> str:
    """The document in a prompt; empty without one."""
    found = re.search(r"<document-(\w+)>\n(.*)\n</document-\1>", prompt, re.DOTALL)
    return found[2] if found else ""


def author(body: Mapping[str, Any], number: int) -> str:
    """Answers every prompt of the reader as a good LLM does, from the prompt alone."""
    prompt = body["messages"][-1]["content"]
    if "Answer A:" in prompt:
        return json.dumps({"same": False})
    if '"answerable"' in prompt:
        return solved(prompt)
    (count,) = map(int, ASKED_FOR.findall(prompt)[:1])
    document = shown(prompt)
    if document:
        earlier = prompt.rpartition("already")[2]
        facts = [found for found in FACT.finditer(document) if f"the {found[1]} of {found[2]}?" not in earlier]
        return questions(*map(of_fact, facts[:count]))
    # Tasks like a sample of sums, with numbers of their own.
    first, second = map(int, ADDED.findall(prompt.partition("already")[0])[0])
    seen = len(re.findall(r"^- ", prompt, re.MULTILINE))
    pairs = [(first * 37 + 101 * (seen + turn), second * 53 + 211 * (seen + turn)) for turn in range(1, count + 1)]
    return questions(*({"question": f"What is {one} + {two}?", "answer": one + two} for one, two in pairs))


def of_fact(found: re.Match[str]) -> dict[str, str]:
    return {"question": f"What is the {found[1]} of {found[2]}?", "answer": found[3], "evidence": found[0]}


def solved(prompt: str) -> str:
    what, of = re.findall(r"What is the (\w+) of (\w+)\?", prompt)[0]
    found = re.search(rf"The {what} of {of} is (\w+)\.", prompt)
    return json.dumps({"answerable": found is not None, "answer": found[1] if found else ""})


WORDS = ("anchor", "basil", "cinder", "dahlia", "ember", "fennel", "garnet", "hazel", "indigo", "juniper", "kestrel", "lupin")


def facts(count: int, seed: int = 0) -> str:
    """A document of sentences, each a fact of its own with names of its own."""
    lines = []
    for number in range(count):
        one, two, three = (WORDS[(number * step + seed * 5 + step) % len(WORDS)] for step in (1, 3, 7))
        lines.append(f"The {one}{number}{seed} of {two}ia{number}x{seed} is {three}grad{number}{seed}.")
    return " ".join(lines) + "\n"


Read = Callable[..., DataGenerationReader]


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """The API that the environment leads to, played by `author`."""
    with scripted_api(author) as api:
        for name, value in api.environ.items():
            monkeypatch.setenv(name, value)
        yield api


@pytest.fixture
def reader(tmp_path: Path) -> Read:
    """Makes the reader as core does, with options as in a YAML that lies in `tmp_path`."""

    def made(**values: Any) -> DataGenerationReader:
        options = build_options(DataGenerationReader, values, key="astuner.task_reader.data_generation")
        return DataGenerationReader.from_run(options, run_info(tmp_path))

    return made


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder of two documents, which make some ten chunks of 200 characters."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "one.txt").write_text(facts(20, seed=1))
    (folder / "two.md").write_text(f"# Facts\n\n{facts(20, seed=2)}")
    return folder


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A file of three sample tasks."""
    path = tmp_path / "samples.jsonl"
    rows = [{"task_id": f"s{n}", "main_query": f"What is {n} + {n + 1}?", "answer": str(2 * n + 1)} for n in (2, 5, 9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def small(documents: Path) -> Mapping[str, Any]:
    """The section `document_reader` for them."""
    return {"document_path": documents.name, "chunk_size": 200}


@pytest.fixture
def like_samples(samples: Path) -> Mapping[str, Any]:
    """The section `query_reader` for them."""
    return {"type": "dataset_file", "dataset_file": {"training": {"file_path": samples.name}}}


@pytest.fixture(name="author")
def _author() -> Callable[..., str]:
    return author


@pytest.fixture(name="facts")
def _facts() -> Callable[..., str]:
    return facts


@pytest.fixture(name="questions")
def _questions() -> Callable[..., str]:
    return questions
