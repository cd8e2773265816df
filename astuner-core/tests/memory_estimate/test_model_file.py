"""The context that a model was made for, from its `config.json`."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.settings.memory_estimate.model_file import find_longest_context

SHORT = {"max_position_embeddings": 512}


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        (SHORT, 512),
        ({**SHORT, "rope_parameters": {"rope_type": "default"}}, 512),
        ({"text_config": SHORT, "vision_config": {"max_position_embeddings": 77}}, 512),
        ({**SHORT, "rope_scaling": {"type": "yarn", "factor": 4.0}}, None),
        ({**SHORT, "rope_parameters": {"rope_type": "llama3"}}, None),
        ({"max_position_embeddings": "512"}, None),
        ({**SHORT, "rope_scaling": "yarn", "text_config": "text"}, 512),
        ({**SHORT, "rope_parameters": ["llama3"], "text_config": [1]}, 512),
        ({}, None),
    ],
)
def test_a_context_is_known_where_positions_are_not_scaled(config: dict[str, Any], longest: int | None) -> None:
    assert find_longest_context(config) == longest
