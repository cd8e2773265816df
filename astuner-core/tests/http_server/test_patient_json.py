"""Large JSON, read bit by bit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from astuner.model.http_server import LARGE_BODY, PatientDecoder, load_json


@pytest.mark.parametrize("size", [10, LARGE_BODY])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_body_of_any_size_is_read_as_json_does(size: int, encoding: str) -> None:
    value = {"a": ["é" * size, {"b": [1.5, None, True]}], "\n": "🙂"}
    assert load_json(json.dumps(value, ensure_ascii=False).encode(encoding)) == value


@pytest.mark.parametrize("size", [10, LARGE_BODY])
def test_what_is_not_json_is_refused_whatever_its_size(size: int) -> None:
    with pytest.raises(ValueError, match="Expecting"):
        load_json(b'{"a": "' + b"x" * size + b'", }')


def test_large_bodies_alone_are_read_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(PatientDecoder, "__init__", lambda self, **options: made.append(self) or json.JSONDecoder.__init__(self))
    load_json(b"[1]")
    assert made == []
    load_json(b"[" + b" " * LARGE_BODY + b"1]")
    assert len(made) == 1
