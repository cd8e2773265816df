"""Loading a model's renderer: its own chat template, or a library that knows the model by name."""

from __future__ import annotations

from pathlib import Path

from astuner.contract.errors import AstunerError
from astuner.model.rendering.template_renderer import TemplateRenderer
from astuner.model.rendering.tokenizers import generation_ends, load_tokenizer


def load_renderer(model_path: str, **options: str) -> TemplateRenderer:
    """Load the tokenizer of a model, a local folder or a hub id, with the ends that its generation configuration names.

    `options` are TemplateRenderer's; `config.model.rendering` holds those of a configuration.
    A tokenizer's chat template takes precedence. Without one, the `renderers` library renders, if it knows the model's name.
    """
    try:
        tokenizer = load_tokenizer(model_path)
    except (OSError, ValueError) as error:
        raise AstunerError(f"model.path: no tokenizer could be loaded from '{model_path}': {error}") from error
    turn_ends = generation_ends(model_path)
    if not tokenizer.chat_template:
        from astuner.model.rendering.library_renderer import LibraryRenderer, family_of

        family = family_of(Path(model_path).name)
        if family is not None:
            return LibraryRenderer(tokenizer, family, turn_ends, source=model_path, **options)
    return TemplateRenderer(tokenizer, turn_ends, source=model_path, **options)
