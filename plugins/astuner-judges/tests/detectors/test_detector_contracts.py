from __future__ import annotations

from typing import ClassVar

from astuner_devkit.contracts import DetectorContract
from astuner_devkit.ordinary_texts import ORDINARY_TEXTS
from astuner_devkit.sampled_answers import function_tool, make_sampled
from astuner_judges.detectors.non_ascii import NonAscii
from astuner_judges.detectors.nonsense import Nonsense
from astuner_judges.detectors.special_token_leak import SpecialTokenLeak

ADD = function_tool("add", {"type": "object", "required": ["a", "b"]})
ONLY_ASCII = {name: text for name, text in ORDINARY_TEXTS.items() if text.isascii()}


class TestNonsense(DetectorContract):
    component = Nonsense
    abnormal: ClassVar = (make_sampled("I will check it again.\n" * 300),)


class TestNonsenseThatIsFoundEarly(DetectorContract):
    component = Nonsense
    options: ClassVar = {"min_chars": 500, "min_chars_cut": 400}
    ordinary: ClassVar = {"a chorus": ORDINARY_TEXTS["a chorus"]}
    abnormal: ClassVar = (make_sampled("I will check it again.\n" * 30),)


class TestWrongToolcall(DetectorContract):
    component = "astuner_judges.detectors.wrong_toolcall:WrongToolcall"
    abnormal: ClassVar = (
        make_sampled("", tools=(ADD,), tool_calls=[("add", {"a": 1})]),
        make_sampled("<tool_call>{", malformed=1),
    )


class TestSpecialTokenLeak(DetectorContract):
    component = SpecialTokenLeak
    abnormal: ClassVar = (make_sampled("so <|im_start|>user", special_tokens=("<|im_start|>",)),)


class TestNonAscii(DetectorContract):
    component = NonAscii
    ordinary: ClassVar = ONLY_ASCII
    abnormal: ClassVar = (make_sampled("π"), make_sampled("".join(map(chr, range(400, 900)))))
