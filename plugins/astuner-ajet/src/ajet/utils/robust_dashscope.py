"""DashScope's chat model of AgentScope, with several keys."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

from agentscope.model import DashScopeChatModel

from astuner.shared.clients import find_endpoint

FIRST_PAUSE_S = 5.0


class RobustDashScopeChatModel(DashScopeChatModel):  # type: ignore[misc] # AgentScope is installed where agents use it
    """Repeats failed requests, with one key of `DASHSCOPE_API_KEY` after the other."""

    def __init__(self, model_name: str = "qwen3-max", stream: bool = False, max_try: int = 4, **kwargs: Any) -> None:
        """`max_try` is how often a request is made."""
        endpoint = find_endpoint(os.environ, type(self).__name__)
        self._keys = itertools.cycle((*endpoint.keys, *endpoint.backup))
        self.max_try = max_try
        super().__init__(api_key=next(self._keys), model_name=model_name, stream=stream, **kwargs)

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the model's answer; raises what the last try raised."""
        for attempt in range(1, self.max_try + 1):
            try:
                return await super().__call__(*arguments, **named)
            except Exception:
                if attempt == self.max_try:
                    raise
                self.api_key = next(self._keys)
                await asyncio.sleep(FIRST_PAUSE_S * attempt)
        raise ValueError(f"max_try is {self.max_try}; it must be at least 1")
