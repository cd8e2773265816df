"""A digest that shows whether a kept service matches the configuration."""

from __future__ import annotations

import hashlib
import json

from astuner.config.model import Service


def digest_of(service: Service) -> str:
    """Return a digest of command, directory and environment; the values cannot be read from it."""
    command = service.command if isinstance(service.command, str) else list(service.command)
    text = json.dumps([command, service.cwd, sorted(service.env.items())], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
