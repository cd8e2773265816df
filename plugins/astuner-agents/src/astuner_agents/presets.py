"""The settings of known agent programs, and what the section `agent` makes of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from attrs import field, frozen

from astuner.settings.config.model import Config

Prompt = Literal["argument", "stdin", "file"]


@frozen(kw_only=True)
class Preset:
    """How a program is started so that its model is the gateway."""

    command: str | tuple[str, ...]
    prompt: Prompt
    install: str | None = None
    """The command that installs it."""
    env: Mapping[str, str] = field(factory=dict)
    files: Mapping[str, str] = field(factory=dict)


@cache
def read_presets() -> Mapping[str, Preset]:
    """Return the presets by name."""
    text = files("astuner_agents").joinpath("presets.toml").read_text(encoding="utf-8")
    return {name: Preset(**{**one, "command": tuple(one["command"])}) for name, one in tomllib.loads(text).items()}


def settle_program(config: Config) -> Preset:
    """Return the preset, if there is one, with what the section sets itself; raises `KeyError` for an unknown one."""
    agent = config.agent
    base = Preset(command=(), prompt="argument") if agent.preset is None else read_presets()[agent.preset]
    return Preset(
        command=agent.command or base.command,
        prompt=agent.prompt or base.prompt,
        install=None if agent.command else base.install,
        env={**base.env, **agent.env},
        files={**base.files, **agent.files},
    )
