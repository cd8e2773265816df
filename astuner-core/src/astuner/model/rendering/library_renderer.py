"""Rendering through the `renderers` library, for models whose tokenizer has no chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from astuner.contract.errors import AstunerError
from astuner.model.rendering.template_renderer import TemplateRenderer


class LibraryRenderer(TemplateRenderer):
    """Renders a family of models as the `renderers` library defines it.

    Only the text is the library's. Ids are made from it, and conversations continued, as for a template: the library's
    own way to continue a conversation keeps parts of a prompt that a full rendering would write differently.
    """

    def __init__(self, tokenizer: Any, family: str, turn_ends: Sequence[int] = (), **options: Any) -> None:
        """`family` comes from `family_of`, `options` are TemplateRenderer's.

        Raises AstunerError if the tokenizer belongs to another family.
        """
        self.family = family
        self._renderers: dict[str, Any] = {}
        self.tokenizer = tokenizer
        ends = self._renderer({}).get_stop_token_ids()
        super().__init__(tokenizer, [*ends, *turn_ends], **options)

    def _check(self, tokenizer: Any) -> None:
        """Do nothing: the library's code replaces the chat template."""

    def _apply(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        renderer = self._renderer(kwargs)
        return self.decode(renderer.render_ids(list(messages), tools=list(tools) or None, add_generation_prompt=generate))

    def _renderer(self, kwargs: Mapping[str, Any]) -> Any:
        key = json.dumps(kwargs, sort_keys=True, default=str)
        if key not in self._renderers:
            from renderers import config_from_name, create_renderer

            config = config_from_name(self.family)
            try:
                self._renderers[key] = create_renderer(self.tokenizer, config, chat_template_kwargs=dict(kwargs))
            except (AssertionError, ValueError) as error:
                if kwargs:
                    # The library's error names the arguments it does not know; the client gets that error.
                    raise
                raise AstunerError(
                    f"model.path: the model's name says {self.family}, but its tokenizer is of another family ({error}), and "
                    "it has no chat template. Add a chat_template.jinja next to its tokenizer."
                ) from error
        return self._renderers[key]


def family_of(model: str) -> str | None:
    """Return the library's name for a model's family, given a hub id or its last part; None if the library has none."""
    try:
        from renderers.base import MODEL_RENDERER_MAP
    except ModuleNotFoundError:
        return None
    name = model.rpartition("/")[2]
    return next((str(family) for known, family in MODEL_RENDERER_MAP.items() if known.rpartition("/")[2] == name), None)
