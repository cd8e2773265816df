"""The Python of docs/serving.md, in transformers and against the server of llama.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import REPOSITORY
from page_commands import read_blocks

PAGE = REPOSITORY / "docs" / "serving.md"
AS_TRAINED = 'extra_body={"repeat_penalty": 1.0}'
"""The server's default is 1.1."""


@pytest.fixture
def in_transformers(tuned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the page's first example prints."""
    monkeypatch.chdir(tuned)
    exec(read_blocks(PAGE, "python")[0].replace('"tuned"', '"hf"'), {})
    return capsys.readouterr().out


def test_the_openai_sdk_gets_from_llama_cpp_what_transformers_answers(
    in_transformers: str, llama_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = read_blocks(PAGE, "python")[1].replace("http://127.0.0.1:8000", llama_server)
    exec(code.replace("max_tokens=50", f"max_tokens=50, temperature=0.0, {AS_TRAINED}"), {})
    found = capsys.readouterr().out
    assert found == in_transformers
    assert found.strip()
