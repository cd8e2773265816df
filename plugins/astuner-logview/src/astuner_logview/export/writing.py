"""Writing an export: from what is asked for to the text of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from astuner_logview.export.collecting import Ask, collect
from astuner_logview.export.markdown import write_episode, write_group
from astuner_logview.export.page import build_page
from astuner_logview.export.subjects import GroupSubject, Subject

if TYPE_CHECKING:
    from astuner_logview.library import Library

Form = Literal["html", "md"]
SUFFIXES: tuple[Form, ...] = ("html", "md")


def write_export(subject: Subject, form: Form, ask: Ask) -> str:
    """Return the text of the file; raises `Unanswerable` if what it is about does not exist."""
    if form == "html":
        return build_page(subject, collect(subject, ask))
    answer = ask(subject.answer)
    return write_group(subject.run, answer) if isinstance(subject, GroupSubject) else write_episode(subject.run, answer)


def is_indexed(library: Library, run: str) -> bool:
    """Whether the index of a run is whole; raises `Missing` for an unknown run."""
    index = library.find(run).index
    with index.open() as connection:
        return index.measure_progress(connection) >= 1


def ask_library(library: Library) -> Callable[[str], dict[str, Any]]:
    """Return a function that answers addresses as the server does."""
    from astuner_logview.server.routes import answer_page, match_path, parse_query

    def ask(address: str) -> dict[str, Any]:
        path, _, query = address.partition("?")
        pattern, run = match_path(f"/{path}")
        return answer_page(library, pattern, run, parse_query(query))

    return ask
