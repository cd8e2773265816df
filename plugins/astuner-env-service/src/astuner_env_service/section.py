"""The options that reader and environment of one server share: the section `task_reader.env_service`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, matches_re, min_len, optional

from astuner_env_service.client.token import read_token

READER = "env_service"
KEY = "astuner.task_reader.env_service"
URL = matches_re(r"https?://[^\s/]+.*")


@frozen(kw_only=True)
class EnvServiceOptions:
    """Options of the reader `env_service`. The server's token, if any, comes from the variable ASTUNER_ENV_TOKEN."""

    env_type: str = field(default="appworld", validator=min_len(1))
    """The environment's name in the service."""
    env_url: str = field(default="http://127.0.0.1:8080", validator=URL)
    """Address of the service."""
    env_action_preference: Literal["code", "text", "box"] = "code"
    """The form in which actions are written."""
    training_split: str | None = "train"
    """The environment's name for its training tasks; null for none."""
    validation_split: str | None = "dev"
    """The environment's name for its validation tasks; null for none."""
    params: Mapping[str, Any] = field(factory=dict)
    """Parameters for the server, sent when tasks are listed and when an instance is made."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Only the first `limit` tasks of each split."""

    def token(self, url: str, *trusted_urls: str) -> str | None:
        """Return the token for a server that the configuration names, here or in `trusted_urls`."""
        return read_token(url, (self.env_url, *trusted_urls))
