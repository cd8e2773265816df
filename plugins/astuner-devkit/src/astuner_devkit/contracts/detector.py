"""The contract of detectors of abnormal behaviour: a sampled answer in, evidence or nothing out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from unittest import SkipTest

from astuner.contract.protocols import Sampled
from astuner.episodes.rollout.detection import LONGEST_EVIDENCE
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method
from astuner_devkit.contracts.snapshot import find_changes, take_snapshot
from astuner_devkit.ordinary_texts import ORDINARY_TEXTS
from astuner_devkit.sampled_answers import function_tool, make_sampled

ADD = function_tool("add", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


class DetectorContract(Contract):
    """Rules for detectors. Set `abnormal` to answers that it must find.

    If it targets some of the ordinary texts, for example other scripts, set `ordinary` to those that it must ignore.
    """

    kind = "detector"
    abnormal: ClassVar[Sequence[Sampled]] = ()
    """Answers in which it finds something; `astuner_devkit.sampled_answers.make_sampled` makes them."""
    ordinary: ClassVar[Mapping[str, str]] = ORDINARY_TEXTS
    """Answers in which it finds nothing, by description."""

    @self_contained
    def test_it_is_a_detector(self) -> None:
        """A detector has `look(output)`, a plain method."""
        doc = "It returns the evidence as text, or None."
        assert_method(self.target(), "look", ["output"], blame=self._blame, doc=doc)

    def test_ordinary_texts_are_left_alone(self, tmp_path: Path) -> None:
        """Ordinary texts of any script, code, tables, logs and encodings are not abnormal."""
        detector = self._make_or_skip(tmp_path)
        for name, text in self.ordinary.items():
            found = detector.look(make_sampled(text))
            assert found is None, (
                f"{self._blame} takes an ordinary text ({name}) for abnormal: {found!r:.200}; be stricter, or set "
                "`ordinary` if it targets such texts"
            )

    @self_contained
    def test_it_answers_with_text_or_nothing(self, tmp_path: Path) -> None:
        """It returns None, or a non-empty text that is short enough to be stored."""
        detector = self._make_or_skip(tmp_path)
        for output in self._make_outputs():
            found = detector.look(output)
            fits = found is None or (isinstance(found, str) and bool(found.strip()) and len(found) <= LONGEST_EVIDENCE)
            assert fits, (
                f"{self._blame} returned {found!r:.80} for {output.text!r:.60}: return None, or the evidence as text "
                f"of at most {LONGEST_EVIDENCE} characters"
            )

    @self_contained
    def test_the_same_answer_is_found_the_same(self, tmp_path: Path) -> None:
        """The same answer gives the same evidence, on repeat and from another detector: calls of many episodes come mixed."""
        first, second = self._make_or_skip(tmp_path), self._make_or_skip(tmp_path)
        outputs = list(self._make_outputs())
        once = [first.look(output) for output in outputs]
        backwards = [first.look(output) for output in outputs[::-1]][::-1]
        for other in (backwards, [second.look(output) for output in outputs]):
            for output, before, after in zip(outputs, once, other, strict=True):
                assert before == after, (
                    f"{self._blame} found {before!r:.80} in {output.text!r:.60}, and then {after!r:.80}: keep no "
                    "state between answers and draw nothing at random"
                )

    @self_contained
    def test_the_answer_stays_as_it_is(self, tmp_path: Path) -> None:
        """Looking changes nothing: what was recorded is trained on."""
        detector = self._make_or_skip(tmp_path)
        for output in self._make_outputs():
            before = take_snapshot(output)
            detector.look(output)
            changed = find_changes(before, take_snapshot(output))
            assert not changed, f"{self._blame} changed what it was shown: {changed[0]}: work on a copy"

    def test_what_is_abnormal_is_found(self, tmp_path: Path) -> None:
        """It finds something in every answer of `abnormal`."""
        if not self.abnormal:
            raise SkipTest("it needs answers to find something in: set `abnormal`")
        detector = self._make_or_skip(tmp_path)
        for output in self.abnormal:
            assert detector.look(output), f"{self._blame} finds nothing in {output.text!r:.120}"

    def _make_outputs(self) -> Iterator[Sampled]:
        yield make_sampled("")
        yield make_sampled("The answer is 42.", tools=(ADD,))
        yield make_sampled("Let me add.", tools=(ADD,), tool_calls=[("add", {"a": 1})])
        yield make_sampled("Cut in the mid", finish_reason="length")
        yield from self.abnormal
        for text in list(self.ordinary.values())[:20]:
            yield make_sampled(text)
