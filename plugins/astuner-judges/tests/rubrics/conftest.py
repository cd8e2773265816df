"""A made-up world of answers with labels, and an LLM that judges them by rubrics and is wrong in one verdict of ten."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import define, frozen

from astuner.contract.protocols import RunInfo
from astuner_devkit.run_infos import run_info
from astuner_devkit.scripted_api import Reply, ScriptedApi, scripted_api
from astuner_judges.rubrics.options import RubricsOptions

TELLING = ("units", "steps", "sources", "limits", "examples", "checks", "definitions")
"""What good answers have nine times of ten, and bad ones one time of ten."""
EMPTY = ("greetings", "emphasis", "adjectives", "closings", "headings")
"""What every second answer has, good or bad."""
WORDINGS = ("A good answer gives {}.", "The answer should contain {} where they help.", "Look for {} in what is said.")

_FENCE = re.compile(r"<(question|answer)-[0-9a-f]+>\n(.*?)\n</\1-[0-9a-f]+>", re.DOTALL)
_RUBRIC = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


@frozen
class World:
    """Rows of examples; the same number and seed give the same."""

    def rows(self, count: int, seed: int) -> list[dict[str, Any]]:
        draw = random.Random(seed)
        return [self._row(f"Question {seed}-{number}?", number % 2 == 0, draw) for number in range(count)]

    def ranked_rows(self, count: int, seed: int) -> list[dict[str, Any]]:
        draw = random.Random(seed)
        rows = []
        for number in range(count):
            best, worst = (self._row("", good, draw)["final_answer"] for good in (True, False))
            pair = [{"answer": worst, "rank": 2}, {"answer": best, "rank": 1}]
            rows.append({"main_query": f"Question {seed}-{number}?", "candidates": pair[:: 1 if number % 2 else -1]})
        return rows

    def _row(self, question: str, good: bool, draw: random.Random) -> dict[str, Any]:
        has = [word for word in TELLING if draw.random() < (0.9 if good else 0.1)]
        has += [word for word in EMPTY if draw.random() < 0.5]
        draw.shuffle(has)
        text = " ".join(f"Here are {word}." for word in has) or "Nothing."
        return {"main_query": question, "final_answer": f"{text} ({draw.randrange(10**6)})", "score": float(good)}


@define
class NoisyJudge:
    """Proposes at random, and says of an answer whether it has what a rubric is about; `flips` of the verdicts are turned."""

    flips: float = 0.1
    always: str | None = None
    """The only rubric that is ever proposed."""

    def __call__(self, body: Mapping[str, Any], number: int) -> str | Reply:
        asked = body["messages"][1]["content"]
        if '"verdicts"' in asked:
            return self._ranks(asked) if '"ranks"' in asked else self._scores(asked)
        if '"themes"' in asked:
            numbers = [int(found) for found, _ in _RUBRIC.findall(asked)]
            halves = numbers[::2], numbers[1::2]
            return json.dumps(
                {
                    "themes": [
                        {"name": f"Theme {n}", "theme": f"Half {n}.", "rubrics": half} for n, half in enumerate(halves) if half
                    ]
                }
            )
        if '"rubric":' in asked:
            return json.dumps({"rubric": self._rubric(asked)})
        return json.dumps({"rubrics": [self._rubric(f"{n}{asked}") for n in range(int(re.search(r"Write (\d+)", asked)[1]))]})

    def _rubric(self, of: str) -> str:
        if self.always is not None:
            return self.always
        draw = random.Random(_number(of))
        return draw.choice(WORDINGS).format(draw.choice([*TELLING, *EMPTY]))

    def met(self, rubric: str, question: str, answer: str) -> bool:
        met = any(word in rubric and f"Here are {word}." in answer for word in (*TELLING, *EMPTY))
        turned = _number(f"{rubric}|{question}|{answer}") % 1000 < 1000 * self.flips
        return met != turned

    def _scores(self, asked: str) -> str:
        (_, question), (_, answer) = _FENCE.findall(asked)
        verdicts = [
            {"rubric": int(number), "score": float(self.met(rubric, question, answer)), "reason": "looked"}
            for number, rubric in _rubrics(asked)
        ]
        return json.dumps({"verdicts": verdicts})

    def _ranks(self, asked: str) -> str:
        (_, question), *answers = _FENCE.findall(asked)
        verdicts = [
            {"rubric": int(number), "ranks": [1 if self.met(rubric, question, answer) else 2 for _, answer in answers]}
            for number, rubric in _rubrics(asked)
        ]
        return json.dumps({"verdicts": verdicts})


def _rubrics(asked: str) -> list[tuple[str, str]]:
    shown = asked.split("The question:")[0].split("Rubrics:")[1]
    return [(number, " ".join(part.split())) for number, part in re.findall(r"(?ms)^(\d+)\. (.*?)(?=^\d+\. |\Z)", shown)]


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())


@define
class Workplace:
    """A directory with labelled files, an LLM that answers, and the run in which rubrics are learnt."""

    home: Path
    api: ScriptedApi
    world: World

    def write(self, name: str, rows: Sequence[Mapping[str, Any]]) -> str:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return name

    def options(self, rows: Sequence[Mapping[str, Any]], **more: Any) -> RubricsOptions:
        given = {"dataset_file": {"training": {"file_path": self.write("labelled.jsonl", rows)}}, "num_reference_samples": 1000}
        return RubricsOptions(**{**given, **more})

    def run_info(self, **more: Any) -> RunInfo:
        return run_info(self.home, **more)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def telling() -> tuple[str, ...]:
    return TELLING


@pytest.fixture
def empty() -> tuple[str, ...]:
    return EMPTY


@pytest.fixture
def noisy() -> NoisyJudge:
    return NoisyJudge()


@pytest.fixture
def api(noisy: NoisyJudge, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api(noisy) as running:
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def workplace(tmp_path: Path, api: ScriptedApi, world: World) -> Workplace:
    return Workplace(tmp_path, api, world)


@pytest.fixture
def saved() -> Any:
    def read(path: Path) -> Any:
        return yaml.safe_load(path.read_text(encoding="utf-8"))

    return read
