"""What a secret looks like in any text: keys of known forms, headers, options of commands, passwords in addresses."""

from __future__ import annotations

import base64
import re

from astuner.settings.config.secret_names import GLUED, PASSWORDS, names_secret, split_words

REDACTED = "<redacted>"

_SECRET_VALUE = re.compile(
    r"""
    \b(?:sk-(?=[\w|-]*[0-9A-Z])[A-Za-z0-9_\-|]{6,}
      | hf_[A-Za-z0-9]{16,} | gh[oprsu]_[A-Za-z0-9]{16,} | github_pat_\w{16,} | glpat-[\w-]{16,}
      | xox[abeoprs]-[\w-]{10,} | xapp-[\w-]{10,} | AIza[\w-]{30,} | ya29\.[\w-]{16,} | (?:AKIA|ASIA)[A-Z0-9]{16}\b
      | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,} | whsec_[\w+/=]{16,} | SG\.[\w-]{16,}\.[\w-]{16,} | npm_[A-Za-z0-9]{30,}
      | pypi-[\w-]{32,} | nvapi-[\w-]{16,} | gsk_[A-Za-z0-9]{16,} | r8_[A-Za-z0-9]{30,} | tvly-[\w-]{16,} | dapi[0-9a-f]{32}\b)
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*                                   # a JSON web token
    | (?<=://)(?=[A-Za-z_-]*[0-9])[\w-]{20,}(?=@)                          # a token in an address
    | (?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/-]{8,}     # addresses that are secrets themselves
    | (?<=/api/webhooks/)\d{5,}/[\w-]{8,} | (?<=/webhookb2/)[\w@/-]{16,} | (?<=/bot/v2/hook/)[\w-]{16,}
    | (?<=api\.telegram\.org/bot)\d{5,}:[\w-]{16,}
    | (?<=\bBearer\ )(?:(?=[^\s0-9]*[0-9])[\w.~+/=|-]{6,}|[\w.~+/=|-]{16,})
    | (?<=\bAccountKey=)[\w+/=]{16,}
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_ADDRESS = re.compile(
    r"""(?<=://)(?P<user>[^\s:/@\[\]"'<>$]*):(?P<password>[^\s"'<>$]+)@(?=[\w.-]+(?::\d+)?(?:[/?\#\s"'),;]|$))"""
)
"""User and password in an address; the password ends at the last `@` before a host, and may contain `/` and `@`."""
_PORT = re.compile(r"\d{1,5}(?:/|$)")
_QUERY = re.compile(r"""(?P<name>[?&;][\w.-]*(?:=|%3D))(?P<value>[^\s&;"'<>\#$]{4,})""")
"""An argument in an address, as in `?api_key=…`."""
_SIGNED = frozenset({"sig", "signature"})
_BASIC = re.compile(r"(?<=\bBasic )[A-Za-z0-9+/]{6,}={0,2}(?![\w+/=])")
_LOGIN = re.compile(r"""(?P<name>(?<!\S)(?:-u|--user|--proxy-user|-U)(?:[ \t]+|=)["']?[^\s:"']+:)(?P<value>[^\s"']+)""")
"""User and password of a command, as in `curl -u me:…`."""
_QUOTED = re.compile(r"""(?P<name>(?<![\w-])["']?[A-Za-z][\w-]*["']?\s?[:=]\s?)(?P<value>"[^"\n]{4,}"|'[^'\n]{4,}')""")
"""A quoted value with its name, as in `{'api_key': '…'}`."""
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
FLAG = re.compile(
    r"""(?P<name>(?<![^\s"'(\[,])(?:--?[A-Za-z][\w-]*(?:[ \t]+|=)|[A-Z][A-Z0-9_]*=)|(?<![\w.-])(?:password|passwd|pwd)=(?!=))"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s"'<$-][^\s"']*)"""
)
"""A flag with its value, as in `--password …`, or a variable with its own, as in `API_KEY=…`."""
ORDINARY = re.compile(r"(?=.{1,15}$)(?!sk-)[a-z]+(?:[_=.-][a-z]+)*[.,;:)]*|[0-9][0-9a-z.,:-]{0,10}")
"""A value that is no secret behind a name that may be that of one: a word, a number, or a list of numbers."""
_WORD = re.compile(r"[a-z]{1,15}")
"""What stands behind `--password` in prose, as in "the --password option"."""
_PLAIN = re.compile(r"[0-9.,:-]{1,11}|(?i:none|null|true|false|yes|no|on|off|auto|basic|default)")
_INSIDE = re.compile(r"\$\{[^}]*\}|<redacted>")


def redact_values(text: str) -> str:
    """Take out of any text what looks like a secret: `sk-…`, `Bearer …`, `--password …`, a password in an address."""
    return redact_keys(_LOGIN.sub(_hide_login, _QUOTED.sub(_hide_value, FLAG.sub(_hide_value, text))))


def redact_command_line(text: str) -> str:
    """Take the secrets out of a command: every value of an option, or of a variable, with the name of a secret is one."""
    return redact_values(FLAG.sub(lambda given: given["name"] + REDACTED if is_secret_option(given) else given[0], text))


def redact_keys(text: str) -> str:
    """Take out of any text what can only be a secret, by its own form or that of its header: `sk-…`, `Bearer …`.

    What programs are given (`--token …`, `MAX_TOKEN=…`) stays: in a text about programs it is mostly no secret.
    """
    text = _SECRET_VALUE.sub(REDACTED, _HEADER.sub(_hide_value, _BASIC.sub(_hide_basic, text)))
    return _QUERY.sub(_hide_argument, _ADDRESS.sub(_hide_password, text)) if "=" in text or "@" in text else text


def _hide_value(given: re.Match[str]) -> str:
    """Hide the value of a header, a flag or a variable, unless it is ordinary, as in `MAX_TOKEN=512` or "the --token option"."""
    name, value = given["name"], given["value"].strip("\"'")
    if _INSIDE.search(value):
        return given[0]
    words = split_words(name)
    option = name.startswith("--") and name.endswith("=")
    if words and (words[-1] in PASSWORDS or words[-1].endswith(GLUED)):
        hidden = bool(value) and (name.endswith("=") or not _WORD.fullmatch(value))
    elif option:
        hidden = len(value) >= 4 and not _PLAIN.fullmatch(value)
    else:
        hidden = len(value) >= 8 and not ORDINARY.fullmatch(value)
    is_secret = _HEADER.match(f"{name}x=1234567") is not None or names_secret(words)
    return name + REDACTED if hidden and is_secret else given[0]


def is_secret_option(given: re.Match[str]) -> bool:
    """Whether a match of `FLAG` in a command has a secret for its value."""
    value = given["value"].strip("\"'")
    return bool(value) and not _INSIDE.search(value) and not _PLAIN.fullmatch(value) and names_secret(split_words(given["name"]))


def _hide_login(given: re.Match[str]) -> str:
    return given[0] if ORDINARY.fullmatch(given["value"]) or _INSIDE.search(given["value"]) else given["name"] + REDACTED


def _hide_password(given: re.Match[str]) -> str:
    """Hide user and password, unless they are a host and its port before a path that contains an `@`."""
    if (_PORT.match(given["password"]) and "/" in given["password"]) or _INSIDE.fullmatch(given["password"]):
        return given[0]
    return f"{REDACTED}@"


def _hide_argument(given: re.Match[str]) -> str:
    words, value = split_words(given["name"].removesuffix("%3D")), given["value"]
    if words == ["key"]:
        secret = len(value) >= 16
    else:
        secret = bool(words) and (names_secret(words) or words[-1] in _SIGNED) and not _PLAIN.fullmatch(value)
    return given["name"] + REDACTED if secret and not _INSIDE.search(value) else given[0]


def _hide_basic(given: re.Match[str]) -> str:
    """Hide what is the encoding of `user:password`; "Basic authentication" is not."""
    try:
        decoded = base64.b64decode(given[0] + "=" * (-len(given[0].rstrip("=")) % 4), validate=False)
    except ValueError:
        return given[0]
    return REDACTED if b":" in decoded and decoded.isascii() else given[0]
