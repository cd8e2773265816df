"""The puzzles of reasoning-gym, made and scored in child processes that all episodes of a process share."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import cache
from queue import LifoQueue, SimpleQueue
from typing import Any

from astuner.contract.errors import DataError
from astuner.contract.schema import Split
from astuner_envs.listing import belongs_to_split
from astuner_judges.json_child import JsonChild
from astuner_reasoning_gym.program import make_program

NAME = "reasoning_gym"
PROCESSES = 2
MOST_DRAWS = 200
"""The chance that none of this many different puzzles belongs to validation is below 1e-11."""


class Children:
    """Child processes that start on demand, each with one of our threads waiting for it.

    The threads are daemons: a program whose episodes are over does not wait for unneeded answers.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._asked: SimpleQueue[tuple[Future[Mapping[str, Any]], Mapping[str, Any]]] = SimpleQueue()
        # The last used one comes first: a process with one episode starts one child.
        self._idle: LifoQueue[JsonChild] = LifoQueue()
        for _ in range(PROCESSES):
            self._idle.put(JsonChild(make_program(timeout_s)))
            threading.Thread(target=self._answer, name=NAME, daemon=True).start()

    async def ask(self, **question: Any) -> Mapping[str, Any]:
        """Return an answer. Raises `TimeoutError` if it is late, and `RuntimeError` if the child ends without one."""
        answer: Future[Mapping[str, Any]] = Future()
        self._asked.put((answer, question))
        found = await asyncio.wrap_future(answer)
        if "error" in found:
            raise RuntimeError(f"reasoning-gym: {found['error']}")
        return found

    def _answer(self) -> None:
        while True:
            answer, question = self._asked.get()
            if not answer.set_running_or_notify_cancel():
                continue
            child = self._idle.get()
            try:
                answer.set_result(child.ask(question, self._timeout_s))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                answer.set_exception(error)
            finally:
                self._idle.put(child)


def get_children(timeout_s: float) -> Children:
    """Return the children of this process, shared by all its episodes: one for each would take 100 MiB and a second."""
    return _make_children(os.getpid(), timeout_s)


@cache
def _make_children(process: int, timeout_s: float) -> Children:
    # By process: a fork must not use the pipes of its parent's children.
    return Children(timeout_s)


async def find_puzzle(
    split: Split, number: int, size: int, *, family: str, config: Mapping[str, Any], seed: int, asked: Children
) -> Mapping[str, Any]:
    """Return the settings of a puzzle, with its `entry`: the first of its number that belongs to the split.

    Raises `DataError` for a family or a configuration that does not exist, and if too few puzzles differ.
    """
    made: dict[str, Any] = {"dataset": family, "config": dict(config), "size": size}
    problem = (await asked.ask(check={**made, "seed": seed, "levels": None}))["problem"]
    if problem:
        raise DataError(f"environment '{NAME}': {problem}")
    for draw in range(MOST_DRAWS):
        # All numbers share the datasets, which are slow to make for some families.
        drawn = random.Random(f"{NAME}/{family}/{seed}/{split}/{draw}").randrange(1 << 31)
        source = {**made, "seed": drawn, "level": None, "index": number}
        entry = (await asked.ask(make=source))["entry"]
        if belongs_to_split((family, json.dumps(entry["question"])), split):
            return {**source, "entry": entry}
    raise DataError(
        f"environment '{NAME}': family {family!r} has too few different puzzles for the split {split!r} as it is configured: "
        "widen its family_options, or leave it out"
    )
