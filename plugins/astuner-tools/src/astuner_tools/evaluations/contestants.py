"""Who is evaluated: checkpoints, the model of the YAML, models in other places, and APIs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from attrs import evolve, frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.checkpoints import find_checkpoint
from astuner.runs.store.directory import RunDirectory

BASE = "base"
"""`--checkpoint base`: the model that the YAML names."""
API_BACKBONE = "astuner_tools.evaluations.api_backbone:ApiBackbone"
DEFAULT_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"
KEY_VARIABLE = "OPENAI_API_KEY"


@frozen(kw_only=True)
class Contestant:
    """One that plays the tasks."""

    name: str
    """What it is called in the tables."""
    source: str
    """The weights, or the model and the address of an API."""
    checkpoint: Path | None = None
    """What is loaded instead of `model.path`."""
    overrides: tuple[str, ...] = ()
    """What it needs besides the overrides of all."""
    backbone: str | None = None
    """The backbone that plays it; None for that of all."""

    @property
    def slug(self) -> str:
        """The name as a part of a directory's."""
        return re.sub(r"[^\w.]+", "-", self.name).strip("-.") or "contestant"


def find_checkpoints(names: Sequence[str], home: Path, base: str) -> list[Contestant]:
    """Return the contestants that `--checkpoint` names: `base`, `best`, `last`, a step, or a directory.

    `home` is the directory of the run, and `base` its `model.path`. Raises `UsageError` for one that does not exist.
    """
    found: dict[str, Contestant] = {}
    for name in names:
        one = _find_checkpoint(name, home, base)
        known = found.get(one.source)
        # `best` and `last` are often the same weights: those are played once.
        found[one.source] = one if known is None else evolve(known, name=f"{known.name} = {name}")
    return list(found.values())


def _find_checkpoint(name: str, home: Path, base: str) -> Contestant:
    if name == BASE:
        return Contestant(name=BASE, source=base)
    step = name.removeprefix("step_")
    if name in ("best", "last") or step.isdigit():
        path = find_checkpoint(RunDirectory(home), step)
        shown = name if name == path.name else path.name if step == name and step.isdigit() else f"{name} ({path.name})"
        return Contestant(name=shown, source=str(path), checkpoint=path.resolve())
    path = Path(name)
    if not path.is_dir():
        raise UsageError(
            f"--checkpoint {name}: there is no such directory. Name one, or {BASE} (the model of the YAML), best, "
            f"last or a step of {home}"
        )
    return Contestant(
        name=f"{path.resolve().parent.parent.name}/{path.name}" if _is_of_run(path) else path.name,
        source=str(path),
        checkpoint=path.resolve(),
    )


def _is_of_run(path: Path) -> bool:
    return path.resolve().parent.name == "checkpoints"


def read_api(text: str) -> Contestant:
    """Return the contestant that `--api MODEL[@BASE_URL[,KEY_VARIABLE]]` names.

    Only the name of the variable goes into the configuration; the key stays in the environment. Raises `UsageError` for what is
    not an address, or for a named variable that is not set.
    """
    model, _, rest = text.partition("@")
    url, comma, variable = rest.partition(",")
    url = url.strip() or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    variable = variable.strip() or KEY_VARIABLE
    form = "write it as MODEL@BASE_URL, for example gpt-4.1-mini@https://api.openai.com/v1"
    if not model.strip():
        raise UsageError(f"--api {text}: there is no model before the address; {form}")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--api {model}: {url!r} is not the address of an API; {form}")
    if parts.username or parts.password:
        raise UsageError(f"--api {model}: a key in an address is stored with the run; name its variable: {model}@URL,MY_KEY")
    if comma and not os.environ.get(variable):
        raise UsageError(f"--api {model}: the environment variable {variable}, which should hold the key, is not set")
    options = {"base_url": url, "model": model.strip(), "api_key_env": variable}
    return Contestant(
        name=model.strip(),
        source=f"{model.strip()} at {url}",
        overrides=("rollout.name=openai", f"rollout.openai={json.dumps(options)}"),
        backbone=API_BACKBONE,
    )


def tell_apart(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Return contestants with names and slugs of their own: those that would share one are numbered."""
    named: list[Contestant] = []
    for one in contestants:
        taken = {other.slug for other in named}
        number, made = 2, one
        while made.slug in taken:
            made, number = evolve(one, name=f"{one.name} #{number}"), number + 1
        named.append(made)
    return named
