from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astuner_logview.pages.shared_texts import count_shared_characters

TEXTS = st.lists(st.text(st.sampled_from("ab\U0001f600\U0001f601\ud83d"), max_size=6), min_size=1, max_size=4)


def _split(text: str) -> list[bytes]:
    return [one.encode("utf-16-le", "surrogatepass") for one in text]


@given(TEXTS)
def test_all_texts_begin_with_what_is_shared_and_with_no_character_more(texts: list[str]) -> None:
    shared = count_shared_characters(texts)
    characters = [_split(text) for text in texts]
    ends = [[len(b"".join(own[:count])) // 2 for count in range(len(own) + 1)] for own in characters]
    places = [own.index(shared) for own in ends]
    assert len({tuple(own[:place]) for own, place in zip(characters, places, strict=True)}) == 1
    assert len({tuple(own[: place + 1]) for own, place in zip(characters, places, strict=True)}) > 1 or shared == min(
        own[-1] for own in ends
    )
