from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.schema import Episode, Message, Task
from astuner.runs.store.codec import dump_episode, encode_episode, encode_record
from astuner.runs.store.store_lines import UNREADABLE, read_line, seal
from astuner_devkit.episodes import episode
from astuner_logview.index.line_rows import read_line_rows
from astuner_logview.index.record_outline import read_outline, shorten_arrays

NAMES = ("prompt_ids", "output_ids", "logprobs", "ids", "mask", "other")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=3),
)


def shorten(value: object) -> object:
    """What `shorten_arrays` does, on values."""
    if isinstance(value, list):
        return [shorten(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _replace(name, one) for name, one in value.items()}


def _replace(name: str, value: object) -> object:
    if name in NAMES[:-1] and isinstance(value, list) and not any(isinstance(one, str | list | dict) for one in value):
        return len(value) if name in ("output_ids", "mask") else None
    return shorten(value)


@given(value=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_arrays_of_numbers_are_replaced_and_nothing_else(value: dict[str, object]) -> None:
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert json.loads(shorten_arrays(line)) == shorten(json.loads(line))


@pytest.mark.parametrize("text", ['"mask":[1,2]', '\\","ids":[1]', "a]b[c", "\u2028"])
def test_texts_that_look_like_arrays_stay_as_they_are(text: str) -> None:
    said: Message = {"role": "assistant", "content": text}
    made = episode()
    line = seal(encode_episode(evolve(made, calls=(evolve(made.calls[0], reply=said),))))
    assert read_outline(line)["episode"]["calls"][0]["reply"] == said


def encode_as_before(found: Episode) -> bytes:
    """The line of an episode as versions stored it that did not pack its arrays."""
    return encode_record({"kind": "episode", "episode": dump_episode(found)})


@pytest.mark.parametrize("encode", [encode_episode, encode_as_before])
def test_an_outline_has_the_numbers_of_sampled_and_of_trained_tokens(encode: Callable[[Episode], bytes]) -> None:
    outline = read_outline(seal(encode(episode())))["episode"]
    (call,), (sample,) = outline["calls"], outline["samples"]
    assert (call["output_ids"], sample["mask"]) == (3, 3)


def test_the_rows_of_an_index_do_not_depend_on_how_tokens_are_stored() -> None:
    made = evolve(episode(), task=Task("q", task_id="t", metadata={"tokens": "a", "text": ',"tokens":"'}))
    assert read_line_rows(0, seal(encode_episode(made))) == read_line_rows(0, seal(encode_as_before(made)))


def test_everything_else_is_as_in_the_record() -> None:
    line = seal(encode_as_before(episode()))
    assert read_outline(line) == shorten(read_line(line))


@pytest.mark.parametrize("place", [10, 20, 200, -3])
def test_a_damaged_line_is_refused(place: int) -> None:
    line = bytearray(seal(encode_episode(episode())))
    line[place] ^= 1
    with pytest.raises(UNREADABLE):
        read_outline(bytes(line))


def test_half_a_surrogate_pair_is_mended() -> None:
    line = seal(encode_as_before(episode()).replace(b'"content":"3"', b'"content":"\\ud83d!"'))
    assert read_outline(line)["episode"]["calls"][0]["reply"]["content"] == "\ufffd!"
