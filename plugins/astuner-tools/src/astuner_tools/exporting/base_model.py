"""The model that was tuned: its name for others, its license, and nothing of where it lies on this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath
from typing import Any

from attrs import frozen

from astuner.runs.inspection.run import Run
from astuner.settings.config.adapters import ADAPTER_FILE, read_adapters
from astuner.settings.config.pretrained import find_download
from astuner_tools.exporting.request import HUB_NAME

PATH_KEYS = ("_name_or_path", "name_or_path", "_model_name_or_path")
"""Where transformers writes from which directory a model was loaded."""


@frozen(kw_only=True)
class BaseModel:
    """What is known of the model that was tuned."""

    name: str
    """For people: its name on the hub, or that of its directory; empty if nothing is known."""
    hub_name: str | None
    folder: Path | None
    """Its directory, if it is on this machine."""
    license: str | None
    """As its own card names it."""


def find_base(of_adapters: str | None, run: Run | None, named: str | None) -> BaseModel:
    """Return the base that the adapters name, or else the configuration's `model.path`; `named` is its name on the hub."""
    path = of_adapters or _read_model_path(run)
    if path is not None and (inner := read_adapters(Path(path))) is not None:
        path = inner.base
    folder = Path(path) if path is not None and Path(path).is_dir() else None
    hub_name = named or (path if folder is None and path and HUB_NAME.fullmatch(path) else None)
    card = folder / "README.md" if folder else find_download(hub_name, "README.md") if hub_name else None
    facts = _read_front_matter(card) if card is not None else {}
    stated = facts.get("base_model") if folder else None
    if hub_name is None and isinstance(stated, str) and HUB_NAME.fullmatch(stated):
        # A folder that a conversion wrote says of which model of the hub it is.
        hub_name = stated
    license_ = facts.get("license")
    return BaseModel(
        name=hub_name or (PurePath(path).name if path else ""),
        hub_name=hub_name,
        folder=folder,
        license=license_ if isinstance(license_, str) and re.fullmatch(r"[\w.-]+", license_) else None,
    )


def hide_paths(made: Path, base: BaseModel) -> None:
    """Take directories of this machine out of a model's files; adapters get the hub's name of their base, if it is known."""
    for file in made.glob("*.json"):
        if file.name == "tokenizer.json" or file.name.endswith(".index.json"):
            continue
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            continue
        changed = {key: value for key, value in found.items() if key not in PATH_KEYS or HUB_NAME.fullmatch(str(value))}
        if file.name == ADAPTER_FILE and base.hub_name is not None:
            changed["base_model_name_or_path"] = base.hub_name
        if changed != found:
            file.write_text(json.dumps(changed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_model_path(run: Run | None) -> str | None:
    path = None if run is None else (run.config.get("model") or {}).get("path")
    return path if isinstance(path, str) else None


def _read_front_matter(file: Path) -> dict[str, Any]:
    """Return the YAML between the first two lines of `---`; empty if there is none, or it is broken."""
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
        found = yaml.safe_load(text[4:].partition("\n---")[0]) if text.startswith("---\n") else None
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}
