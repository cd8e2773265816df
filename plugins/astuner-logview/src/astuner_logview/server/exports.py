"""Files to keep, at `/api/export/`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define
from starlette.requests import Request
from starlette.responses import Response

from astuner_logview.errors import Missing
from astuner_logview.export.subjects import EpisodeSubject, GroupSubject, Subject
from astuner_logview.export.writing import Form, ask_library, is_indexed, write_export
from astuner_logview.parameters import Parameters
from astuner_logview.server.routes import Special, read_query
from astuner_logview.server.workers import Workers

if TYPE_CHECKING:
    from astuner_logview.library import Library

PATIENCE_S, LOOK_S = 20.0, 0.2
"""How long an index that is being made is waited for, and how often it is looked at."""
TYPES: Mapping[Form, str] = {"html": "text/html; charset=utf-8", "md": "text/markdown; charset=utf-8"}


@define(eq=False, kw_only=True)
class Exports:
    """Answers with a group or an episode as one file."""

    library: Library
    workers: Workers

    def routes(self) -> Mapping[str, Special]:
        """Return what answers, by address."""
        return {f"/api/export/{kind}.{form}": self._make_route(kind, form) for kind in ("group", "episode") for form in TYPES}

    def _make_route(self, kind: str, form: Form) -> Special:
        async def answer(request: Request) -> Response:
            subject = read_subject(kind, Parameters(values=read_query(request)))
            text = await self._write(subject, form)
            headers = {
                "Content-Type": TYPES[form],
                "Content-Disposition": f'attachment; filename="{subject.file_name}.{form}"',
                "Cache-Control": "no-store",
            }
            return Response(text.encode(), headers=headers)

        return answer

    async def _write(self, subject: Subject, form: Form) -> str:
        """Return the text of the file; what is not indexed yet is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # Before the question: what is missing afterwards is missing from a whole index.
            indexed = await self.workers.call(lambda: is_indexed(self.library, subject.run))
            try:
                return await self.workers.call(lambda: write_export(subject, form, ask_library(self.library)))
            except Missing:
                if indexed or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(LOOK_S)


def read_subject(kind: str, parameters: Parameters) -> Subject:
    """Return what an address names; raises `BadRequest`."""
    run = parameters.read_text("run")
    if kind == "episode":
        return EpisodeSubject(run=run, id=parameters.read_text("id"))
    split = parameters.find_split() or "train"
    return GroupSubject(run=run, split=split, step=parameters.read_number("step"), task=parameters.read_text("task"))
