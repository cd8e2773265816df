"""Wraps the reader of the run, whichever it is, to read only the first tasks of each split."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice

from attrs import field, frozen
from attrs.validators import ge

from astuner import Task, hookimpl
from astuner.contract.protocols import Reader
from astuner.contract.schema import Split


class FirstTasks:
    @frozen(kw_only=True)
    class Options:
        count: int = field(default=100, validator=ge(1))
        """How many tasks of each split are read."""

    def __init__(self, options: Options) -> None:
        self._count = options.count

    @hookimpl(wrapper=True)
    def astuner_make_reader(self) -> Generator[None, Reader, Reader]:
        made = yield
        return _Shortened(made, self._count)


class _Shortened:
    def __init__(self, inner: Reader, count: int) -> None:
        self._inner, self._count = inner, count

    def read(self, split: Split) -> Iterator[Task]:
        return islice(self._inner.read(split), self._count)
