"""Loading the renderer of a model, which is made of its tokenizer's chat template."""

from __future__ import annotations

from astuner.contract.errors import AstunerError
from astuner.model.rendering.template_renderer import TemplateRenderer
from astuner.model.rendering.tokenizers import generation_ends, load_tokenizer


def load_renderer(model_path: str, **options: str) -> TemplateRenderer:
    """Load the tokenizer of a model, a local folder or a hub id, with the ends that its generation configuration names.

    `options` are TemplateRenderer's; `config.model.rendering` holds those of a configuration.
    """
    try:
        tokenizer = load_tokenizer(model_path)
    except (OSError, ValueError) as error:
        raise AstunerError(f"model.path: no tokenizer could be loaded from '{model_path}': {error}") from error
    return TemplateRenderer(tokenizer, generation_ends(model_path), source=model_path, **options)
