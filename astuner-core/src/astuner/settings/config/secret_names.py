"""Whether a name, of a key, an option or a variable, means that its value is a secret."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

PASSWORDS = frozenset({"password", "passwords", "passwd", "passphrase", "passcode", "pwd"})
_SECRET_WORDS = PASSWORDS | {"key", "keys", "apikey", "apikeys", "token", "secret", "secrets", "credential", "credentials", "dsn"}
GLUED = ("password", "passwd", "passphrase", "apikey", "sshpass")
"""Endings of a word that is written without a break, as in `PGPASSWORD`."""
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
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
"""Variables of the shell that sound like passwords: every path in a message would be hidden."""
_COMMANDS = frozenset({"command", "cmd", "args", "argv", "arguments", "entrypoint"})
"""Keys of commands, in which an option with the name of a secret is certainly followed by one."""
_SUSPICIOUS = re.compile("|".join([*_SECRET_WORDS, *GLUED, *_LOGIN_WORDS, "pass", "webhook", "connection"]), re.IGNORECASE)
"""What is in the name of every secret; most names have nothing of it."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_secret(key: str) -> bool:
    """Whether a key's name means that its value is a secret; `tokenizer`, `max_tokens` or `answer_key` does not."""
    if _SUSPICIOUS.search(key) is None:
        return False
    words = split_words(key)
    if words and words[-1] in _WHERE:
        return False
    if "webhook" in words or words[-1:] == ["pass"] or words[-2:] == ["connection", "string"]:
        return True
    if any(word.endswith(GLUED) for word in words):
        return True
    if not _LOGIN_WORDS.isdisjoint(words) and words[-1] not in _HOW:
        return True
    return any(word in _SECRET_WORDS and before not in _NAMED for before, word in pairwise(["", *words]))


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable's name means that its value is a secret."""
    return name not in _DIRECTORIES and is_secret(name)


def is_flag(before: Any) -> bool:
    """Whether an item of a command, such as `--password`, means that the next one is a secret."""
    return isinstance(before, str) and before.startswith("-") and "=" not in before and names_secret(split_words(before))


def is_command(key: str) -> bool:
    """Whether a key, such as `command`, means that its value is a command."""
    return key.lower() in _COMMANDS


def names_secret(words: Sequence[str]) -> bool:
    """Whether a flag or a variable ends in the word for a secret; `--key` alone mostly means a column."""
    if not words or words in (["key"], ["keys"]):
        return False
    named = words[-1] in _SECRET_WORDS | _LOGIN_WORDS | {"pass"} or words[-1].endswith(GLUED)
    return named and is_secret("_".join(words))


def split_words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]
