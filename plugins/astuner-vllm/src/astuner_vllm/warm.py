"""The server that the backbone `debug` keeps between runs: finding it again, and checking whether it may be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import ConfigError, Problem

if TYPE_CHECKING:
    from astuner.shared.processes import ProgramHandle, ProgramRecord
    from astuner_vllm.server import Say

PORT_KEY = "astuner.debug.debug_vllm_port"
SERVER_KEY = "key"
"""The fact of a record that holds the server's key. Only their user can read records."""


def find_warm(
    port: int, facts: Mapping[str, Any], say: Say, *, fresh: bool = False, startup_timeout_s: float = 600.0
) -> ProgramHandle | None:
    """Return the server at a port that has all of these facts, None if the port is free.

    It may still be starting. One of ours is stopped if it serves something else or does not answer after
    `startup_timeout_s`, and always with `fresh`. Raises `ConfigError` if another run uses it, or another program has the
    port.
    """
    from astuner.shared.processes import accepts, attach, list_programs

    wanted = json.loads(json.dumps(dict(facts)))
    for record in list_programs():
        if record.kind != "server" or record.port != port or record.lease is None:
            continue
        found = attach(record)
        differing = [name for name, value in wanted.items() if record.facts.get(name) != value]
        answers = accepts(port)
        if fresh or differing or (not answers and _age_s(record) > startup_timeout_s):
            why = (
                "a fresh one was asked for" if fresh else f"it has another {differing[0]}" if differing else "it does not answer"
            )
            if found.in_use:
                message = f"another run uses the server at port {port}, and {why}. Wait for that run, or choose another port."
                raise ConfigError([Problem(key=PORT_KEY, message=message)])
            say(f"the server that was kept at port {port} is ended: {why}", "info")
            found.end()
            continue
        how = "that was kept" if answers else "that another run is starting"
        say(f"uses the vLLM server {how} at {record.url}", "info")
        return found
    if accepts(port):
        message = f"another program listens at port {port}. End it, or choose another port."
        raise ConfigError([Problem(key=PORT_KEY, message=message)])
    return None


def _age_s(record: ProgramRecord) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(record.started)).total_seconds()


def fingerprint(model: str) -> str:
    """Return a value that changes with the files of a model directory; the name for a model of the hub."""
    home = Path(model)
    if not home.is_dir():
        return model
    kept = (".safetensors", ".bin", ".json", ".jinja", ".model")
    files = sorted((file.name, file.stat()) for file in home.iterdir() if file.suffix in kept)
    rows = [(name, status.st_size, status.st_mtime_ns) for name, status in files]
    return blake2b(repr(rows).encode(), digest_size=8).hexdigest()
