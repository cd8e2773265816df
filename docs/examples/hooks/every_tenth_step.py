"""Wraps one logger, chosen by name: a web service gets every tenth step, and the others get all."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from astuner import hookimpl
from astuner.contract.protocols import Candidate, Logger
from astuner.contract.schema import Group


class EveryTenthStep:
    @hookimpl(wrapper=True)
    def astuner_make_logger(self, candidate: Candidate) -> Generator[None, Logger, Logger]:
        made = yield
        return _Thinned(made) if candidate.name == "wandb" else made


class _Thinned:
    def __init__(self, inner: Logger) -> None:
        self._inner = inner

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step % 10 == 0:
            self._inner.log(step, metrics)

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        if step % 10 == 0:
            self._inner.log_episodes(step, groups)

    def close(self) -> None:
        self._inner.close()
