from __future__ import annotations

import pytest

from astuner_datagen.evidence import is_same_answer, occurs
from astuner_datagen.languages import detect_language, parse_language

TEXT = "The **limit** is 5.0 kg — no more.\nA well-\nknown rule of the “old” house. 北京是\n中国的首都。"


@pytest.mark.parametrize(
    "quotation",
    [
        "The limit is 5.0 kg",
        "the LIMIT is 5.0 kg - no more",
        'A well-known rule of the "old" house',
        "北京是中国的首都。",
        "The limit … no more.",
        "“The limit is 5.0 kg”",
    ],
)
def test_a_quotation_is_found_whatever_became_of_spaces_quotes_dashes_and_markup(quotation: str) -> None:
    assert occurs(quotation, TEXT)


@pytest.mark.parametrize(
    "quotation", ["The limit is 50 kg", "The limit is 6.0 kg", "no more … The limit", "", "…", "北京是日本的首都"]
)
def test_what_the_text_does_not_say_is_not_found(quotation: str) -> None:
    assert not occurs(quotation, TEXT)


@pytest.mark.parametrize(("one", "other"), [("1,000", "1000.0"), ("The Cat", "the cat."), ("５０", "50")])
def test_answers_are_the_same_but_for_spelling(one: str, other: str) -> None:
    assert is_same_answer(one, other)


@pytest.mark.parametrize(("one", "other"), [("50", "5.0"), ("cat", "cats"), ("1", "one"), ("nan", "NaN of something")])
def test_other_answers_are_not(one: str, other: str) -> None:
    assert not is_same_answer(one, other)


def test_languages_go_by_the_name_or_by_the_letters() -> None:
    assert [parse_language(name) for name in ("eng", "chi_sim", "ZH", "zh_CN")] == ["en", "zh", "zh", "zh"]
    assert detect_language("中文", ["eng"]) == "en"
    assert [detect_language(text, ["eng", "zh"]) for text in ("plain English", "中文夹杂 English words", "")] == [
        "en",
        "zh",
        "en",
    ]
    with pytest.raises(ValueError, match="language 'fra'"):
        parse_language("fra")
