"""API keys: whether they are set, never their values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from astuner.settings.config.secret_names import is_secret_variable
from astuner.settings.config.secrets import Secrets
from astuner.shared.known_packages import read_known_packages
from astuner_tools.doctor.rows import Row

WELL_KNOWN = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "DASHSCOPE_API_KEY",
    "HF_TOKEN",
    *(name for names in read_known_packages().api_keys.values() for name in names),
)
"""The usual keys of models, judges, data sets and loggers."""

_USED = re.compile(r"\$\{oc\.env:\s*([A-Za-z_]\w*)\s*(,)?")


@frozen(kw_only=True)
class Variables:
    """The environment variables of a run, by origin. Read before `.env` is loaded into the environment."""

    environment: Mapping[str, str]
    dotenv: Mapping[str, str]

    @classmethod
    def read(cls, config_dir: Path | None) -> Variables:
        """Read the environment, and the `.env` of a configuration's directory."""
        file = config_dir / ".env" if config_dir else None
        dotenv: Mapping[str, str | None] = {}
        if file is not None and file.is_file():
            from dotenv import dotenv_values

            dotenv = dotenv_values(file)
        return cls(environment=dict(os.environ), dotenv={name: value or "" for name, value in dotenv.items()})

    def find_source(self, name: str) -> str | None:
        """Return where a variable is set; None if it is unset or empty."""
        if self.environment.get(name):
            return "the environment"
        # The environment wins over the file, even with an empty value.
        return ".env" if name not in self.environment and self.dotenv.get(name) else None

    def hide(self, text: str) -> str:
        """Remove every secret from a text: all values of `.env`, and those of variables whose names say so."""
        named = [value for name, value in self.environment.items() if is_secret_variable(name)]
        return Secrets(frozenset((*named, *self.dotenv.values()))).hide(text)


def key_rows(variables: Variables, config_text: str = "") -> Iterator[Row]:
    """Yield the well-known keys and every variable that a configuration takes from the environment."""
    uses = _USED.findall(re.sub(r"(?m)(^|\s)#.*$", "", config_text))
    with_default = {name: all(comma for other, comma in uses if other == name) for name, _ in uses}
    for name in dict.fromkeys((*with_default, *WELL_KNOWN)):
        source = variables.find_source(name)
        if source is not None:
            yield Row(area="keys", what=name, detail=f"set in {source}")
        elif name not in with_default:
            yield Row(area="keys", what=name, status="missing", detail="not set")
        elif with_default[name]:
            yield Row(area="keys", what=name, detail="not set; the configuration has a default for it")
        else:
            remedy = f"set it, add it to .env, or write ${{oc.env:{name},DEFAULT}}"
            yield Row(area="keys", what=name, status="broken", detail="not set; the configuration needs it", remedy=remedy)
