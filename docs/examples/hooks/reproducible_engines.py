"""Decides: checks the engine that core makes, and stops the run if its answers depend on the rest of the batch."""

from __future__ import annotations

from collections.abc import Generator

from astuner import hookimpl
from astuner.contract.protocols import Engine, MakeEngine


class ReproducibleEngines:
    @hookimpl(wrapper=True)
    def astuner_make_engine(self) -> Generator[None, MakeEngine, MakeEngine]:
        make = yield

        def check_engine() -> Engine:
            engine = make()
            if not engine.capabilities.reproducible:
                raise ValueError(f"{type(engine).__name__} is not reproducible: choose another rollout.name")
            return engine

        return check_engine
