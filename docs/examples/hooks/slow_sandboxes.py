"""Wraps what makes sandboxes: one that takes long to open is reported."""

from __future__ import annotations

import time
from collections.abc import Generator

from astuner import hookimpl
from astuner.contract.protocols import Sandboxes, SandboxSession, SandboxSpec, SandboxTraits, read_traits

LONGEST_S = 1.0


class SlowSandboxes:
    @hookimpl(wrapper=True)
    def astuner_make_sandbox(self) -> Generator[None, Sandboxes, Sandboxes]:
        sandboxes = yield
        return _Timed(sandboxes)


class _Timed(Sandboxes):
    def __init__(self, inner: Sandboxes) -> None:
        self._inner = inner
        self.traits = read_traits(inner, SandboxTraits)

    async def open(self, spec: SandboxSpec) -> SandboxSession:
        start = time.monotonic()
        session = await self._inner.open(spec)
        if (took := time.monotonic() - start) > LONGEST_S:
            print(f"{spec.episode_id}: its sandbox took {took:.1f} s to open")
        return session

    async def close(self) -> None:
        await self._inner.close()

    def check(self) -> None:
        self._inner.check()

    def find_program(self, name: str) -> bool | None:
        return self._inner.find_program(name)
