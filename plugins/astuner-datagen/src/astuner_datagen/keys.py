"""What generated tasks depend on, as a key: the same content and options give the same file, anything else another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from astuner.contract.schema import Task
from astuner_datagen.documents import DocumentFile
from astuner_datagen.drafts import ANSWER
from astuner_datagen.options import DataGenerationOptions
from astuner_datagen.prompts import NAMES, load_question_prompt

_FORMAT = 1
"""Incremented when the same content and options give other tasks."""


def validation_key(options: DataGenerationOptions, files: Sequence[DocumentFile]) -> str:
    """Return 16 hex digits of what validation tasks depend on: not workers, limits, or the LLM's address."""
    reader, params = options.document_reader, options.deduplication_filter.params
    return _digest(
        {
            "format": _FORMAT,
            "documents": [(file.name, file.sha256) for file in files],
            "chunks": None if reader is None else [sorted(reader.languages), reader.chunk_size, reader.split_by],
            "wanted": options.wanted_validation,
            "trained": options.task_num > 0,
            "share": options.validation_share,
            "n": options.knowledge_augmentor.n,
            "llm": [options.model, options.llm_response_length, options.llm.temperature],
            "fields": [dict(options.llm.extra), dict(options.sampling_params)],
            "verify": options.verify,
            "duplicates": [options.deduplication_filter.enabled, params.similarity_threshold, params.model],
            "prompts": [load_question_prompt(name, language).version for name in NAMES for language in ("en", "zh")],
        }
    )


def train_key(options: DataGenerationOptions, validation: str, samples: Sequence[Task]) -> str:
    """Return 16 hex digits of what training tasks depend on, including the validation tasks."""
    shown = [
        [task.task_id, task.main_query, list(task.init_messages), task.env_type, task.metadata.get(ANSWER)] for task in samples
    ]
    return _digest({"validation": validation, "task_num": options.task_num, "n": options.task_augmentor.n, "samples": shown})


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
