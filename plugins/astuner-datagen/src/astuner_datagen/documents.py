"""The documents on disk: found, named, and turned into text with the positions of their pages."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from astuner.contract.errors import DataError
from astuner_datagen.formats import FORMATS, ParsedDocument, Unreadable, parse
from astuner_datagen.task_files import write_atomically

_NEEDS_PARSING = (".htm", ".html", ".pdf")
_PARSER_VERSION = 2
"""Incremented when the same bytes give another text, so that cached texts are made again."""
_NO_TEXT = re.compile("[\ud800-\udfff\0]")


@frozen(kw_only=True)
class Document:
    """A document as text."""

    name: str
    """Its path relative to the YAML's folder, or the absolute path if it is elsewhere."""
    sha256: str
    """Digest of the file."""
    text: str = field(repr=False)
    page_starts: tuple[int, ...] = field(default=(), repr=False)
    """Where each page begins in the text; empty without pages."""


@frozen(kw_only=True)
class DocumentFile:
    """A document's file, read but not yet parsed."""

    path: Path
    name: str
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """Digest of the content."""
        return sha256(self.content).hexdigest()


@define(eq=False)
class Library:
    """Documents of one configuration; unreadable ones are listed with the reason."""

    documents: list[Document] = field(factory=list)
    unreadable: dict[str, str] = field(factory=dict)
    """Reason by name."""
    other_files: dict[str, int] = field(factory=dict)
    """Files of folders that no format here reads: how many, by ending."""


def find_files(given: str | Iterable[str], config_dir: Path, key: str) -> list[Path]:
    """Return the files that paths name, those of folders in the order of their names.

    Raises `DataError` for a path that does not exist, a file of another format, and a folder without documents.
    """
    found: dict[Path, None] = {}
    for text in (given,) if isinstance(given, str) else given:
        path = (config_dir / Path(text).expanduser()).resolve()
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in FORMATS)
            if not inside:
                raise DataError(f"{key}: {path}: the folder holds no document ({', '.join(FORMATS)})")
            found.update(dict.fromkeys(inside))
        elif not path.is_file():
            raise DataError(f"{key}: {path} does not exist (given as '{text}'; relative paths start at {config_dir})")
        elif path.suffix.lower() not in FORMATS:
            raise DataError(f"{key}: {path}: documents end in {', '.join(FORMATS)}; save this one as one of these")
        else:
            found[path] = None
    return list(found)


def count_other_files(given: str | Iterable[str], config_dir: Path) -> dict[str, int]:
    """Count the files in folders that no format here reads, by their endings; hidden ones are not meant."""
    others: Counter[str] = Counter()
    for text in (given,) if isinstance(given, str) else given:
        folder = (config_dir / Path(text).expanduser()).resolve()
        for file in folder.rglob("*") if folder.is_dir() else ():
            is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
            if file.is_file() and not is_hidden and file.suffix.lower() not in FORMATS:
                others[_to_encodable(file.suffix.lower())] += 1
    return dict(sorted(others.items()))


def read_files(paths: Iterable[Path], config_dir: Path, key: str) -> list[DocumentFile]:
    """Return the files with their content; raises `DataError` for one that this user cannot read."""
    files = []
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{key}: {path}: {error.strerror or error}") from error
        name = path.relative_to(config_dir) if path.is_relative_to(config_dir) else path
        files.append(DocumentFile(path=path, name=_to_encodable(name.as_posix()), content=content))
    return files


def _to_encodable(name: str) -> str:
    """Return a name that can be written to a file; bytes that are not UTF-8 become hex digits."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def open_library(files: Iterable[DocumentFile], kept: Path | None) -> Library:
    """Return the documents as text; parsed ones are stored in the folder `kept`. Raises `DataError` if none can be read."""
    library = Library()
    for file in files:
        try:
            parsed = _parse(file, kept)
        except Unreadable as error:
            library.unreadable[file.name] = str(error)
            continue
        document = Document(name=file.name, sha256=file.sha256, text=parsed.text, page_starts=parsed.page_starts)
        library.documents.append(document)
    if not library.documents:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in library.unreadable.items())
        raise DataError(f"none of the documents can be read: {reasons}")
    return library


def _parse(file: DocumentFile, kept: Path | None) -> ParsedDocument:
    if kept is None or file.path.suffix.lower() not in _NEEDS_PARSING:
        return _clean(parse(file.path, file.content))
    # The suffix decides how the bytes are read, so the text depends on it.
    place = kept / f"{file.sha256[:32]}{file.path.suffix.lower()}.v{_PARSER_VERSION}.json"
    for found in _read_cached(place):
        return ParsedDocument(text=found["text"], page_starts=tuple(found["page_starts"]))
    parsed = _clean(parse(file.path, file.content))
    write_atomically(place, json.dumps({"text": parsed.text, "page_starts": parsed.page_starts}, ensure_ascii=False))
    return parsed


def _read_cached(place: Path) -> Iterator[Mapping[str, Any]]:
    if place.is_file():
        yield json.loads(place.read_text(encoding="utf-8"))


def _clean(parsed: ParsedDocument) -> ParsedDocument:
    """Replace characters that no API accepts; raise `Unreadable` for an empty text."""
    text = _NO_TEXT.sub("\ufffd", parsed.text)
    if not text.strip():
        raise Unreadable("it holds no text; a scan needs its text recognised (OCR) first")
    return ParsedDocument(text=text, page_starts=parsed.page_starts)
