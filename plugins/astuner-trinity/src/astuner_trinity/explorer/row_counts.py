"""The end of the explorer's pipeline: every row stores how many rows its step has, so that the trainer reads whole steps."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from trinity.algorithm.advantage_fn.advantage_fn import AdvantageFn
from trinity.buffer.operators import ExperienceOperatorV1
from trinity.buffer.operators.experience_operator import ensure_v1_operator
from trinity.common.experience import EID, Experience

from astuner_trinity.explorer.experiences import build_blank
from astuner_trinity.explorer.whole_step import compare_step
from astuner_trinity.rows import ROWS, STAMP


class StepStamp(AdvantageFn, ExperienceOperatorV1):
    """Runs in place of Trinity's advantages, the last part that sees a step's rows; ours come with the rows.

    With the name of one of Trinity's algorithms, its advantages are computed first: some drop rows.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        advantage_fn: str | None = None,
        advantage_fn_args: Mapping[str, Any] | None = None,
    ) -> None:
        """Take one of Trinity's algorithms, and the user's replacement for its advantage function, if any."""
        self._own = _advantages(algorithm, advantage_fn, advantage_fn_args) if algorithm else None
        self._operator = None if self._own is None or self._own.compute_in_trainer() else ensure_v1_operator(self._own)
        self._last: Experience | None = None

    def __call__(self, exps: Any, **keywords: Any) -> Any:
        """Compute the advantages of a batch in the trainer, for algorithms that do so there."""
        return self._own(exps, **keywords) if self._own is not None else (exps, {})

    def set_auxiliary_model(self, auxiliary_models: Any = None) -> None:
        """Pass the models on."""
        super().set_auxiliary_model(auxiliary_models)
        if self._operator is not None:
            self._operator.set_auxiliary_model(auxiliary_models)

    async def prepare(self) -> None:
        """Prepare the advantage function."""
        if self._operator is not None:
            await self._operator.prepare()

    async def process(self, exps: list[Experience]) -> tuple[list[Experience], dict[str, float]]:
        """Mark the rows of one explorer step; a step without rows gets one that trains nothing."""
        metrics: dict[str, float] = {}
        if exps:
            self._last = exps[0]
            # In a thread: the run is planned again for the first step.
            await asyncio.to_thread(compare_step, exps)
            if self._operator is not None:
                exps, metrics = await self._operator.process(exps)
        # Trinity's queue drops an empty step, and its trainer would wait for it.
        exps = exps or [self._blank_row()]
        step = uuid.uuid4().hex
        for row in exps:
            row.info |= {ROWS: len(exps), STAMP: step}
        return exps, metrics

    async def close(self) -> None:
        """Close the advantage function."""
        if self._operator is not None:
            await self._operator.close()

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Return the arguments: none."""
        return {}

    @classmethod
    def compute_in_trainer(cls) -> bool:
        """It runs in the explorer."""
        return False

    def _blank_row(self) -> Experience:
        batch, version = (self._last.eid.batch, int(self._last.info["model_version"])) if self._last is not None else ("", 0)
        row = build_blank(EID(batch=batch), group="", step=version + 1)
        # A replay buffer orders rows by this; Trinity writes it where a task is played.
        row.info |= {"model_version": version, "use_count": 0}
        return row


def _advantages(algorithm: str, name: str | None, arguments: Mapping[str, Any] | None) -> AdvantageFn | None:
    """Return an algorithm's advantage function; None if it has none. Raises `ValueError` for a wrong name."""
    from trinity.algorithm import ADVANTAGE_FN, ALGORITHM_TYPE

    kind = ALGORITHM_TYPE.get(algorithm)
    usual = kind.default_config()
    name = name or usual.get("advantage_fn")
    if name is None:
        return None
    found = ADVANTAGE_FN.get(name)
    if found.compute_in_trainer() != kind.compute_advantage_in_trainer:
        where = ("the explorer", "the trainer") if found.compute_in_trainer() else ("the trainer", "the explorer")
        raise ValueError(
            f"algorithm.advantage_fn: {algorithm!r} computes advantages in {where[0]}, and {name!r} runs in {where[1]}"
        )
    if arguments is None:
        arguments = usual.get("advantage_fn_args", found.default_args())
    made: AdvantageFn = found(**arguments)
    return made
