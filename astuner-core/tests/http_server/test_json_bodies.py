"""JSON bodies are read as `json` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.model.http_server import load_json

TEXTS = st.text(alphabet='ab"\\\n\u00e9\u4e2d\U0001f600\ud83d', max_size=9)
NUMBERS = st.integers() | st.integers(-(10**40), 10**40) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES, ascii_only=st.booleans(), cut=st.integers(0, 3), junk=st.sampled_from(["", "}", "]", ",", '"', "\\", "\n"]))
def test_what_is_read_is_what_json_reads(value: Any, ascii_only: bool, cut: int, junk: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for changed in (text, text[: len(text) - cut] + junk):
        raw = changed.encode("utf-8", "surrogatepass")
        assert read(load_json, raw) == read(json.loads, raw)


EXACT = [
    b"18446744073709551616",
    b"-0.0",
    b"-0",
    b"1e400",
    b"1E2",
    b"NaN",
    b"5e-324",
    b"9007199254740993",
    b"1.7976931348623159e308",
    b'{"a": 1, "a": 2}',
    b'"\\ud83d"',
    b'"\\ude00\\ud83d"',
    b'"\xed\xa0\xbd"',
    b"[" * 200_000,
    b"1" * 5000,
    b"\xef\xbb\xbf[1]",
    b"",
    "[é]".encode("utf-16"),
    '["é"]'.encode("utf-16"),
]


@pytest.mark.parametrize("raw", EXACT, ids=range(len(EXACT)))
def test_what_decoders_disagree_on_is_read_as_json_reads_it(raw: bytes) -> None:
    assert read(load_json, raw) == read(json.loads, raw)


def test_json_reads_only_what_msgspec_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", None)
    assert load_json(bytearray(b'{"a": [1, 2.5, "\xc3\xa9"]}')) == {"a": [1, 2.5, "é"]}
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b"NaN")


def read(parse: Callable[[bytes], Any], raw: bytes) -> str:
    try:
        return repr(parse(raw))
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__} {error}"
