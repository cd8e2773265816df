"""The address and keys of an auxiliary LLM: read from the environment, never from the YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from astuner.contract.errors import AstunerError

DASHSCOPE = "https://dashscope.aliyuncs.com/compatible-mode/v1"
OPENAI = "https://api.openai.com/v1"


class NoEndpoint(AstunerError):
    """The environment names no LLM."""

    exit_code = 2


@frozen(kw_only=True)
class Endpoint:
    """An OpenAI-compatible API."""

    base_url: str
    keys: tuple[str, ...] = field(repr=False)
    """Taken in turn, one per request."""
    backup: tuple[str, ...] = field(default=(), repr=False)
    """For a request that failed with all of them."""
    keys_from: str
    """The environment variable that holds the keys."""

    def iterate_keys(self, request: int) -> Iterator[str]:
        """Yield the keys for the attempts of the n-th request: first its own, then the others, then the backup, and so on."""
        start = request % len(self.keys)
        while True:
            yield from (*self.keys[start:], *self.keys[:start], *self.backup)


def find_endpoint(environ: Mapping[str, str], wanted_by: str) -> Endpoint:
    """Read `OPENAI_BASE_URL`, `DASHSCOPE_API_KEY` or `OPENAI_API_KEY`, the first that is set.

    Several keys are written `a|b`. Raises `NoEndpoint` with a remedy when none is set; `wanted_by` names what needs the LLM.
    """
    url = environ.get("OPENAI_BASE_URL", "").strip()
    openai_keys, dashscope_keys = _read_keys(environ, "OPENAI_API_KEY"), _read_keys(environ, "DASHSCOPE_API_KEY")
    if url:
        # A private server may need no key; clients insist on sending one.
        return Endpoint(base_url=url, keys=openai_keys or ("none",), keys_from="OPENAI_API_KEY")
    if dashscope_keys:
        base_url = environ.get("DASHSCOPE_BASE_URL", "").strip() or DASHSCOPE
        backup = _read_keys(environ, "DASHSCOPE_API_KEY_BACKUP")
        return Endpoint(base_url=base_url, keys=dashscope_keys, backup=backup, keys_from="DASHSCOPE_API_KEY")
    if openai_keys:
        return Endpoint(base_url=OPENAI, keys=openai_keys, keys_from="OPENAI_API_KEY")
    raise NoEndpoint(
        f"{wanted_by} needs an LLM, and the environment names none: set DASHSCOPE_API_KEY, or OPENAI_API_KEY, or OPENAI_BASE_URL "
        "for a server of your own (an .env file next to the YAML is read too)"
    )


def _read_keys(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(key for part in environ.get(name, "").split("|") if (key := part.strip()))
