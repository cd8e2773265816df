"""Taking secrets out of configurations and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from astuner.config.places import KeyPath, format_path
from astuner.config.trees import change_leaves

REDACTED = "<redacted>"

_PASSWORDS = frozenset({"password", "passwords", "passwd", "passphrase", "pwd"})
_SECRET_WORDS = _PASSWORDS | {"key", "keys", "apikey", "apikeys", "token", "secret", "secrets", "credential", "credentials"}
_LOGIN_WORDS = frozenset({"auth", "oauth", "authorization", "authentication", "bearer", "jwt", "cookie", "cookies"})
_HOW = frozenset({"type", "mode", "method", "scheme", "kind", "url", "uri", "endpoint", "host", "enabled", "required", "sock"})
"""Endings after a word of `_LOGIN_WORDS` that mean how one logs in, not with what, as in `auth_type`."""
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
    r"""
    \b(?:sk-(?=[\w|-]*[0-9A-Z])[A-Za-z0-9_\-|]{6,}
      | hf_[A-Za-z0-9]{16,} | gh[oprsu]_[A-Za-z0-9]{16,} | github_pat_\w{16,} | glpat-[\w-]{16,}
      | xox[abeoprs]-[\w-]{10,} | AIza[\w-]{30,} | (?:AKIA|ASIA)[A-Z0-9]{16}\b)
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*                                   # a JSON web token
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                                      # a password in an address
    | (?<=\bBearer\ )(?:(?=[^\s0-9]*[0-9])[\w.~+/=|-]{6,}|[\w.~+/=|-]{16,})
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(
    r"""
    (?P<name>(?<![\w-])(?:
        (?:Proxy-)?Authorization["']?\s?:\s?["']?(?:(?:Bearer|Basic|Digest|Token|Negotiate)\s+|(?=[^\s"']*[0-9]))
      | (?:X-)?(?:Api-Key|Auth(?:-Token|-Key)?)["']?\s?:\s?["']?
      | (?:Set-)?Cookie["']?\s?:\s?["']?(?=[\w.-]+=)
    ))
    (?P<value>[^\s"',;{}\[\]$<|>&*!\#]{4,}(?:;\s?[\w.-]+=[^\s"',;{}\[\]]+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A header of HTTP, as in `curl -H 'Authorization: Bearer …'`."""
_FLAG = re.compile(
    r"""(?P<name>(?<!\S)(?:--?[A-Za-z][\w-]*(?:[ \t]+|=)|[A-Z][A-Z0-9]*_[A-Z0-9_]*=))"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s"'<$-][^\s"']*)"""
)
"""A flag with its value, as in `--password …`, or a variable with its own, as in `API_KEY=…`."""
_ORDINARY = re.compile(r"(?=.{1,15}$)(?!sk-)[a-z]+(?:[_=.-][a-z]+)*[.,;:)]*|[0-9][0-9a-z.,:-]{0,10}")
"""A value that is no secret behind a name that may be that of one: a word, a number, or a list of numbers."""
_ENVIRONMENT = re.compile(r"\$\{oc\.env:\s*\w+\s*\}")


def redact_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without secrets: texts under a key such as `api_key`, and texts that look like one (`sk-…`)."""
    return {key: _redact(value, is_secret(str(key))) for key, value in tree.items()}


def restore_variables(tree: Mapping[str, Any], from_environment: Mapping[str, str], start: str = "") -> dict[str, Any]:
    """Write what came from the environment as `${oc.env:NAME}`: such a value may be a secret under any key.

    `start` is the dotted path of the tree, to which `from_environment` is relative.
    """

    def restore(value: Any, path: KeyPath) -> Any:
        return from_environment.get(format_path(path, start), value) if isinstance(value, str) else value

    restored: dict[str, Any] = change_leaves(tree, restore)
    return restored


def restore_values(tree: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Write what came from the environment as `${oc.env:NAME}` in a tree with other keys, by the values themselves."""
    restored: dict[str, Any] = change_leaves(tree, lambda value, _: values.get(value, value) if isinstance(value, str) else value)
    return restored


def redact_text(text: str) -> str:
    """Take the secrets out of a YAML text, leaving everything else, comments too, as it was written."""
    for start, end in sorted(_find_secret_spans(text), reverse=True):
        text = text[:start] + REDACTED + text[end:]
    return redact_values(text)


def redact_values(text: str) -> str:
    """Take out of any text what looks like a secret: `sk-…`, `Bearer …`, `--password …`, a password in an address."""
    return redact_keys(_FLAG.sub(_hide_value, text))


def redact_keys(text: str) -> str:
    """Take out of any text what can only be a secret, by its own form or that of its header: `sk-…`, `Bearer …`.

    What programs are given (`--token …`, `MAX_TOKEN=…`) stays: in a text about programs it is mostly no secret.
    """
    return _SECRET_VALUE.sub(REDACTED, _HEADER.sub(_hide_value, text))


def is_secret(key: str) -> bool:
    """Whether a key's name means that its value is a secret; `tokenizer`, `max_tokens` or `answer_key` does not."""
    words = _split_words(key)
    if words and words[-1] in _WHERE:
        return False
    if not _LOGIN_WORDS.isdisjoint(words) and words[-1] not in _HOW:
        return True
    return any(word in _SECRET_WORDS and before not in _NAMED for before, word in pairwise(["", *words]))


def _hide_value(given: re.Match[str]) -> str:
    """Hide the value of a header, a flag or a variable, unless it is ordinary, as in `MAX_TOKEN=512` or "the --token option"."""
    name, value = given["name"], given["value"].strip("\"'")
    words = _split_words(name)
    if words and words[-1] in _PASSWORDS:
        hidden = name.endswith("=") or not value.islower() or not value.isalpha()
    else:
        hidden = len(value) >= 8 and not _ORDINARY.fullmatch(value)
    return name + REDACTED if hidden and (":" in name or _names_secret(words)) else given[0]


def is_flag(before: Any) -> bool:
    """Whether an item of a command, such as `--password`, means that the next one is a secret."""
    return isinstance(before, str) and before.startswith("-") and "=" not in before and _names_secret(_split_words(before))


def _names_secret(words: Sequence[str]) -> bool:
    """Whether a flag or a variable ends in the word for a secret; `--key` alone mostly means a column."""
    if not words or words in (["key"], ["keys"]):
        return False
    return words[-1] in _SECRET_WORDS | _LOGIN_WORDS and is_secret("_".join(words))


def _split_words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _redact(value: Any, secret: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _redact(item, secret or is_secret(str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, secret or is_flag(before)) for before, item in pairwise(["", *value])]
    if not isinstance(value, str) or not value or _ENVIRONMENT.fullmatch(value):
        return value
    return REDACTED if secret else redact_values(value)


def _find_secret_spans(text: str) -> set[tuple[int, int]]:
    import yaml

    spans: set[tuple[int, int]] = set()

    def walk(node: Any, secret: bool) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, secret or is_secret(str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for before, item in pairwise([None, *node.value]):
                walk(item, secret or is_flag(getattr(before, "value", "")))
        elif secret and node.tag.endswith(":str") and node.value and not _ENVIRONMENT.fullmatch(node.value):
            spans.add((node.start_mark.index, node.end_mark.index))

    for document in yaml.compose_all(text, yaml.SafeLoader):
        walk(document, secret=False)
    return spans
