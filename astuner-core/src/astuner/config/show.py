"""A configuration as text for people and for the run directory, without its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from astuner.config.places import ROOT

if TYPE_CHECKING:
    from astuner.config.loading import LoadedConfig

REDACTED = "<redacted>"

_SECRET_WORDS = frozenset({"key", "keys", "apikey", "apikeys", "token", "secret", "secrets", "password", "passwords", "passwd"})
_NAMED = frozenset(
    {"answer", "question", "query", "prompt", "response", "reference", "reward", "score", "label", "image", "text", "task"}
    | {"metadata", "column", "primary", "foreign", "sort", "group", "cache"}
    | {"eos", "bos", "pad", "unk", "mask", "stop", "special"}
)
"""Before `key` or `token` they make it the name of a field, as in `answer_key`, or a piece of text, as in `eos_token`."""
_WHERE = frozenset({"env", "var", "variable", "file", "path", "name", "field", "column"})
"""At the end they say that only the place of a secret is named, as in `api_key_env`."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_VALUE = re.compile(
    r"\b(sk-[A-Za-z0-9_\-|]{6,}|hf_[A-Za-z0-9]{16,}|gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,})|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+\}")


def to_yaml(config: LoadedConfig, redact: bool = True) -> str:
    """Write the whole resolved configuration as a YAML that loads to the same one (secrets aside)."""
    import yaml

    tree: Mapping[str, Any] = {ROOT: _escaped(config.resolved), **config.native}
    tree = redact_tree(tree) if redact else tree
    text: str = yaml.dump(tree, Dumper=_dumper(yaml), sort_keys=False, allow_unicode=True, width=120)
    return text


def redact_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without secrets: texts under a key such as `api_key`, and texts that look like one (`sk-…`)."""
    return {key: _redacted(value, secret=is_secret(str(key))) for key, value in tree.items()}


def redact_text(text: str) -> str:
    """Take the secrets out of a YAML text, leaving everything else, comments too, as it was written."""
    for start, end in sorted(_secret_spans(text), reverse=True):
        text = text[:start] + REDACTED + text[end:]
    return redact_values(text)


def redact_values(text: str) -> str:
    """Take out of any text what looks like a secret by itself: `sk-…`, `hf_…`, a password in an address."""
    return _SECRET_VALUE.sub(REDACTED, text)


def is_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret; `tokenizer`, `max_tokens` or `answer_key` does not."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if words and words[-1] in _WHERE:
        return False
    return any(word in _SECRET_WORDS and before not in _NAMED for before, word in pairwise(["", *words]))


def _redacted(value: Any, secret: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _redacted(item, secret or is_secret(str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, secret) for item in value]
    if not isinstance(value, str):
        return value
    return REDACTED if secret and value else redact_values(value)


def _secret_spans(text: str) -> set[tuple[int, int]]:
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


def _escaped(value: Any) -> Any:
    # What is left of `${` after loading is meant as plain characters, and must stay so when it is read again.
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    return value.replace("${", "\\${") if isinstance(value, str) else value


def _dumper(yaml: Any) -> Any:
    """Return a dumper that writes no anchors, and quotes every text that our reader or another one would take for a number."""
    from astuner.config.yaml_lines import FLOAT, INT

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789"))
    dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
    return dumper
