"""Wraps every detector: it looks at answers of some length only."""

from __future__ import annotations

from collections.abc import Generator

from attrs import frozen

from astuner import hookimpl
from astuner.contract.protocols import Detector, Sampled


class LongAnswersOnly:
    @frozen(kw_only=True)
    class Options:
        at_least: int = 20
        """Characters from which an answer is looked at."""

    def __init__(self, options: Options) -> None:
        self._at_least = options.at_least

    @hookimpl(wrapper=True)
    def astuner_make_detector(self) -> Generator[None, Detector, Detector]:
        made = yield
        return _Patient(made, self._at_least)


class _Patient:
    def __init__(self, inner: Detector, at_least: int) -> None:
        self._inner, self._at_least = inner, at_least

    def look(self, output: Sampled) -> str | None:
        return self._inner.look(output) if len(output.text) >= self._at_least else None
