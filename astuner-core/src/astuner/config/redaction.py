"""Taking secrets out of configurations and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from astuner.config.places import KeyPath
from astuner.config.trees import change_leaves

REDACTED = "<redacted>"

_SECRET_WORDS = frozenset({"key", "keys", "apikey", "apikeys", "token", "secret", "secrets", "password", "passwords", "passwd"})
_NAMED = frozenset(
    {"answer", "question", "query", "prompt", "response", "reference", "reward", "score", "label", "image", "text", "task"}
    | {"metadata", "column", "primary", "foreign", "sort", "group", "cache"}
    | {"eos", "bos", "pad", "unk", "mask", "stop", "special"}
)
"""Before `key` or `token` these make it the name of a field, as in `answer_key`, or a piece of text, as in `eos_token`."""
_WHERE = frozenset({"env", "var", "variable", "file", "path", "name", "field", "column"})
"""Endings that mean that only the place of a secret is named, as in `api_key_env`."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_VALUE = re.compile(
    r"\b(sk-[A-Za-z0-9_\-|]{6,}|hf_[A-Za-z0-9]{16,}|gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,})|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+\}")


def redact_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without secrets: texts under a key such as `api_key`, and texts that look like one (`sk-…`)."""
    redacted: dict[str, Any] = change_leaves(tree, _redact_leaf)
    return redacted


def redact_text(text: str) -> str:
    """Take the secrets out of a YAML text, leaving everything else, comments too, as it was written."""
    for start, end in sorted(_find_secret_spans(text), reverse=True):
        text = text[:start] + REDACTED + text[end:]
    return redact_values(text)


def redact_values(text: str) -> str:
    """Take out of any text what looks like a secret on its own: `sk-…`, `hf_…`, a password in an address."""
    return _SECRET_VALUE.sub(REDACTED, text)


def is_secret(key: str) -> bool:
    """Whether a key's name means that its value is a secret; `tokenizer`, `max_tokens` or `answer_key` does not."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if words and words[-1] in _WHERE:
        return False
    return any(word in _SECRET_WORDS and before not in _NAMED for before, word in pairwise(["", *words]))


def _redact_leaf(value: Any, path: KeyPath) -> Any:
    if not isinstance(value, str):
        return value
    return REDACTED if value and any(is_secret(str(key)) for key in path) else redact_values(value)


def _find_secret_spans(text: str) -> set[tuple[int, int]]:
    import yaml

    spans: set[tuple[int, int]] = set()

    def walk(node: Any, secret: bool) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, secret or is_secret(str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                walk(item, secret)
        elif secret and node.tag.endswith(":str") and node.value and not _ENVIRONMENT.fullmatch(node.value):
            spans.add((node.start_mark.index, node.end_mark.index))

    for document in yaml.compose_all(text, yaml.SafeLoader):
        walk(document, secret=False)
    return spans
