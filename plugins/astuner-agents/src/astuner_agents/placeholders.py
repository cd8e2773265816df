"""The names in braces that stand for an episode's values in a command, its environment and its files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{([a-z_]+)(?:\.([^{}\s]+))?\}")


class Placeholders:
    """The values of one episode. A name in braces that is not known is left as it is: files of JSON are full of braces."""

    def __init__(self, values: Mapping[str, str], metadata: Mapping[str, Any]) -> None:
        """`metadata` is that of the task, for `{task.NAME}`."""
        self._values, self._metadata = values, metadata

    def fill(self, text: str) -> str:
        """Return a text with the values in it."""
        return self._replace(text, str)

    def fill_shell(self, text: str) -> str:
        """Return a command line for the shell, with each value quoted as one word."""
        return self._replace(text, shlex.quote)

    def _replace(self, text: str, quote: Callable[[str], str]) -> str:
        def find(match: re.Match[str]) -> str:
            name, item = match.groups()
            if item is None:
                return quote(self._values[name]) if name in self._values else match[0]
            if name == "task" and item in self._metadata:
                found = self._metadata[item]
                return quote(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
            return match[0]

        return _PLACEHOLDER.sub(find, text)
