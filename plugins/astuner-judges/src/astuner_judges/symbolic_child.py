"""The program of the child process: compares pairs of expressions, one line of JSON each, with math-verify.

It imports math-verify once and forks a worker that compares. The kernel ends the worker when it has used its CPU time, whatever
it computes, and the next one is forked in milliseconds.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
from contextlib import suppress
from dataclasses import replace as evolve
from typing import Any

_MEMORY_BYTES = 4 << 30
_SIGNS = {
    ">=": r"\geq ",
    "<=": r"\leq ",
    "!=": r"\neq ",
    "≥": r"\geq ",
    "≤": r"\leq ",
    "≠": r"\neq ",
    "+/-": r"\pm ",
    "±": r"\pm ",
}
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|([0-9]+|[A-Za-z]))")
_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_POWER = re.compile(r"(?<=[0-9A-Za-z)])\*\*(?=[-(0-9A-Za-z])")
_UPRIGHT = re.compile(r"\\(?:math(?:rm|bf|it|sf)|text(?:rm|bf|it)?|mbox|hat|vec)\s*\{\s*([A-Za-z])\s*\}")
_UNIT = re.compile(r"\\?\s*\\(?:text|mathrm|mbox|textrm|rm)\s*\{[^{}]*[A-Za-z]{2}[^{}]*\}(?:\s*\^\s*\{?[23]\}?)?\s*$")


def main() -> None:
    """Answer until the input ends."""
    if sys.platform == "linux":
        import resource

        from astuner.shared.processes import set_limit

        set_limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    logging.disable()
    try:
        import math_verify  # noqa: F401 - each worker has it from here
    except Exception as error:  # noqa: BLE001 - sent to the parent, which raises
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return
    print("{}", flush=True)
    worker = None
    for line in sys.stdin:
        worker = worker or _Worker()
        found = worker.ask(line)
        if found is None:
            found, worker = worker.read_end(), None
        print(found, end="", flush=True)


class _Worker:
    """A fork of this process that compares."""

    def __init__(self) -> None:
        asked, ask = os.pipe()
        answer, answered = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(ask)
            os.close(answer)
            # What math-verify prints must not reach the parent.
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0)
            os.dup2(nowhere, 1)
            try:
                _compare_all(asked, answered)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)
        self._ask, self._answer = os.fdopen(ask, "w", encoding="utf-8"), os.fdopen(answer, encoding="utf-8")

    def ask(self, line: str) -> str | None:
        """Return the answer to a question; None if the worker ends."""
        try:
            self._ask.write(line)
            self._ask.flush()
        except OSError:
            return None
        return self._answer.readline() or None

    def read_end(self) -> str:
        """Return why the worker ended, as an answer."""
        with suppress(OSError):
            self._ask.close()
        self._answer.close()
        status = os.waitpid(self._process, 0)[1]
        is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        return json.dumps({"late": True} if is_late else {"error": "its process ended, probably out of memory"}) + "\n"


def _compare_all(asked: int, answered: int) -> None:
    with os.fdopen(asked, encoding="utf-8") as questions, os.fdopen(answered, "w", encoding="utf-8") as answers:
        for line in questions:
            question = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, question["cpu_s"])
            found = _compare(question)
            signal.setitimer(signal.ITIMER_PROF, 0)
            answers.write(json.dumps(found) + "\n")
            answers.flush()


def _rewrite(text: str) -> str:
    """Leave out dollar signs, units written as text, and what makes a letter upright."""
    for plain, command in _SIGNS.items():
        text = text.replace(plain, command)
    text = _ROOT.sub(lambda match: f"\\sqrt{{{match[1] or match[2]}}}", text)
    text = _POWER.sub("^", _PI.sub(r"\\pi ", text))
    return _UNIT.sub("", _UPRIGHT.sub(r" \1 ", text.replace("$", ""))).strip() or text


def _compare(question: dict[str, Any]) -> dict[str, object]:
    from math_verify import LatexExtractionConfig, parse, verify

    try:
        # Read as plain text, `4√2` would be 4, and `4ab` too if letters were units: what math-verify can read of it.
        config = LatexExtractionConfig()
        formulas = (evolve(config, normalization_config=evolve(config.normalization_config, units=False)),)
        texts = [_rewrite(text) for text in (question["gold"], question["answer"])]
        expressions = [parse(f"${text}$", formulas, parsing_timeout=None, raise_on_error=True) for text in texts]
        equal = verify(
            *expressions,
            float_rounding=question["places"],
            timeout_seconds=None,
            raise_on_error=True,
            allow_set_relation_comp=True,
        )
    except Exception as error:  # noqa: BLE001 - reported to the parent, which raises
        return {"error": f"{type(error).__name__}: {error}"}
    return {"equal": bool(equal)}


if __name__ == "__main__":
    main()
