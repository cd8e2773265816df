"""The tokenizer of the trained model, for code that asks for it."""

from __future__ import annotations

from typing import Any

from astuner.settings.config.pretrained import guard_loading


class LazyTokenizer:
    """Loads the tokenizer when something of it is first used: most workflows never do."""

    def __init__(self, model_path: str, chat_template: str | None = None) -> None:
        """`model_path` is a directory or a Hugging Face id; `chat_template` replaces the tokenizer's own."""
        self._model_path, self._chat_template = model_path, chat_template
        self._loaded: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the tokenizer."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Encode."""
        return self._load()(*arguments, **named)

    def __deepcopy__(self, memo: Any) -> LazyTokenizer:
        """Share it: it is not changed."""
        return self

    def _load(self) -> Any:
        if self._loaded is None:
            from transformers import AutoTokenizer

            with guard_loading(self._model_path):
                self._loaded = AutoTokenizer.from_pretrained(self._model_path, trust_remote_code=False)
            if self._chat_template is not None:
                self._loaded.chat_template = self._chat_template
        return self._loaded
