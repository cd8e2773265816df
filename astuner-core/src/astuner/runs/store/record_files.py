"""The small records of a run, `state.json`, `run.json` and `config.yaml`: what is damaged is named, with the way on."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.contract.errors import UsageError
from astuner.contract.plain_values import mend_texts
from astuner.runs.store.atomic import write_json
from astuner.shared.private_files import open_stored

CHECKSUM = "checksum"
"""The key of a record with a checksum of all others."""


def write_record(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a record, with its checksum."""
    # Text that is not valid Unicode is mended when it is written, and the checksum is that of what is there.
    content = mend_texts({key: value for key, value in data.items() if key != CHECKSUM})
    write_json(path, {**content, CHECKSUM: _compute_checksum(content)})


def read_record(path: Path, lost: str) -> dict[str, Any]:
    """Return a record; empty if there is no file. `lost` is what deleting the file loses, for the error about a damaged one.

    Records of older versions have no checksum.
    """
    if not path.exists():
        return {}
    remedy = f"Put it back from a copy, or delete it to continue: lost with it are only {lost}"
    try:
        data = json.loads(str(read_stored(path), "utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: damaged: byte {error.start} is not valid UTF-8. {remedy}") from error
    except json.JSONDecodeError as error:
        what = "is empty" if not path.stat().st_size else f"is not valid JSON ({error.msg})"
        raise UsageError(f"{path}:{error.lineno}: damaged: {what}. {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: damaged: {error}. {remedy}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path}: damaged: it does not hold a JSON object. {remedy}")
    checksum = data.pop(CHECKSUM, None)
    if checksum is not None and checksum != _compute_checksum(data):
        raise UsageError(
            f"{path}: damaged: its {CHECKSUM} is not that of its content. If you edited it, remove the line '{CHECKSUM}'. "
            f"{remedy}"
        )
    return data


def read_config_record(path: Path) -> dict[str, Any] | None:
    """Return `config.yaml` of a run; None if there is no file."""
    import yaml

    from astuner.settings.config.yaml_bounds import load_plain_yaml

    if not path.exists():
        return None
    remedy = "Put it back from a copy, or delete it to continue: then no key is compared with that of the last start"
    try:
        document: Any = load_plain_yaml(str(read_stored(path), "utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: damaged: byte {error.start} is not valid UTF-8. {remedy}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{line}: damaged: {getattr(error, 'problem', None) or 'not valid YAML'}. {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: damaged: {error}. {remedy}") from error
    found: dict[str, Any] = document if isinstance(document, dict) else {}
    if not isinstance(found.get("resolved"), dict) or not isinstance(found.get("environment") or {}, dict):
        raise UsageError(f"{path}: damaged: it {'has no section resolved' if document else 'is empty'}. {remedy}")
    return found


def read_stored(path: Path) -> bytes:
    """Return the content of a file of a run; raises `UsageError` if it cannot be read."""
    try:
        with open_stored(path) as file:
            content: bytes = file.read()
            return content
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _compute_checksum(content: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
