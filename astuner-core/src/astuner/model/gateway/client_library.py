"""The HTTP library of an SDK."""

from __future__ import annotations

import importlib
from types import ModuleType


def client_library(sdk: str) -> ModuleType:
    """Return the module that an installed SDK makes its requests with: `httpx`, or `httpx2` since openai 3 and anthropic 2."""
    roots = [base.__module__.partition(".")[0] for base in importlib.import_module(sdk).DefaultAsyncHttpxClient.__mro__]
    return importlib.import_module(next(root for root in roots if root in ("httpx", "httpx2")))
