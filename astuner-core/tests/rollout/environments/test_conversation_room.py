"""Counting the tokens of long texts: off the event loop, and only as far as it matters."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from astuner.episodes.rollout.environments.conversation_room import TokenCounter
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.template_renderer import LONGEST_CACHED

LONG = "word " * LONGEST_CACHED
"""Too long for the event loop."""


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def count_rendered(renderer: TemplateRenderer, text: str) -> int:
    return len(renderer.encode(renderer.render([user(text)], (), generate=True, kwargs={})))


@pytest.fixture
def door(renderer: TemplateRenderer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keep what encodes at the door until it is let in."""
    opened, arrived = threading.Event(), threading.Event()

    def hold(encode: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*given: Any) -> Any:
            arrived.set()
            assert opened.wait(60)
            return encode(*given)

        return wait

    monkeypatch.setattr(renderer, "encode", hold(renderer.encode))
    yield arrived, opened
    opened.set()


@pytest.mark.asyncio
async def test_the_event_loop_goes_on_while_a_long_conversation_is_counted(renderer: TemplateRenderer, door: Any) -> None:
    arrived, opened = door
    counted = asyncio.ensure_future(TokenCounter(renderer, 1_000_000).count_messages([user(LONG)]))
    assert await asyncio.to_thread(arrived.wait, 60)
    assert not counted.done()
    opened.set()
    assert await counted == count_rendered(renderer, LONG)


@pytest.mark.asyncio
async def test_the_event_loop_goes_on_while_a_long_message_is_cut(renderer: TemplateRenderer, door: Any) -> None:
    arrived, opened = door
    cut = asyncio.ensure_future(TokenCounter(renderer, 10).clip(user(LONG), 300))
    assert await asyncio.to_thread(arrived.wait, 60)
    assert not cut.done()
    opened.set()
    # The context does not matter here.
    assert 290 < len(renderer.encode((await cut)["content"])) <= 300


@pytest.mark.asyncio
async def test_what_is_certainly_too_long_is_neither_rendered_nor_encoded(
    renderer: TemplateRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = LONG * 10
    for name in ("render", "encode"):
        monkeypatch.setattr(renderer, name, None)
    assert 500 < await TokenCounter(renderer, 500).count_messages([user(huge)]) <= len(huge)


@pytest.mark.asyncio
@pytest.mark.parametrize("content", ["hello", LONG, [{"type": "text", "text": LONG}, {"type": "text", "text": "hello"}]])
async def test_what_fits_is_counted_exactly(renderer: TemplateRenderer, content: Any) -> None:
    exact = count_rendered(renderer, content if isinstance(content, str) else "\n".join(part["text"] for part in content))
    assert await TokenCounter(renderer, exact).count_messages([user(content)]) == exact


@pytest.mark.asyncio
async def test_without_a_tokenizer_long_texts_are_estimated() -> None:
    messages = [user("a" * 400_000), user("中" * 40_000)]
    assert await TokenCounter(None, 10).count_messages(messages) == 4 + 100_000 + 4 + 40_000
