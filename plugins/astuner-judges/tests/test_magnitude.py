from __future__ import annotations

import pytest

from astuner_judges.magnitude import is_too_large


@pytest.mark.parametrize(
    "text",
    [
        r"9^{9^{9^9}}", r"9999999999^{9999999999}", "9^9^9", "9**9**9", "9^{9^9}", "(9!)!", "100000!", "((3!)!)!", "7!!!!",
        r"10^{10^{10}}", r"e^{e^{e^{e^{10}}}}", r"\binom{1000000}{5}", r"x^{9^{9^9}}", r"\left(2\right)^{10^{10}}",
        r"2^{-10^{10}}", r"{9}^{999999999}", r"2^{2^{2^{2^{2^2}}}}", r"2^{\frac{10^{10}}{3}}", r"9^{9\cdot 999999999}",
    ],
)  # fmt: skip
def test_towers_are_too_large(text: str) -> None:
    assert is_too_large(text)


@pytest.mark.parametrize(
    "text",
    [
        "2^{10}", r"x^{2024}", r"3^{1000}", r"e^{x^2}", r"(x+1)^{10}", "100!", "5!", r"\binom{50}{5}", r"2^{2^{10}}", "18",
        r"1.5 \times 10^{20}", "x^2+y^2=1", r"e^{-\frac{x^2}{2}}", r"10^{-5}", r"2003^{2002}", r"2^{x^{3}}", "1000!",
        "^", "{^", "!",
    ],
)  # fmt: skip
def test_what_people_write_is_not(text: str) -> None:
    assert not is_too_large(text)
