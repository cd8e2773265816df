"""A running Phoenix, through its REST API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from astuner.contract.errors import DataError, PluginError
from astuner.shared.clients import pause_before_retry
from astuner.shared.install_hints import install_command
from astuner_tracing.annotations import add_score, parse_annotator, to_number
from astuner_tracing.attributes import get_at, get_text
from astuner_tracing.records import Annotation, BadRecord, Record, Span
from astuner_tracing.sources.json_spans import parse_json_span, to_nanoseconds

if TYPE_CHECKING:
    import httpx

    from astuner_tracing.sources.access import Access

PAGE = 200
"""Spans in one answer."""
IDS = 50
"""Ids in one request for annotations: they are in the URL, whose length is limited."""
ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
KEY = "PHOENIX_API_KEY"


class PhoenixServer:
    """Streams the spans of one project or of all, with their annotations; holds one page of spans at a time."""

    kind = "Phoenix server"
    path: Path | None = None
    inode: tuple[int, int] | None = None

    def __init__(self, name: str, access: Access) -> None:
        self.name, self._access = name, access

    def records(self) -> Iterator[Record]:
        """Yield spans page by page, then the annotations of the page's spans, traces and sessions."""
        with self._client() as client:
            for project in self._projects(client):
                asked: set[str] = set()
                for page in self._pages(client, f"/v1/projects/{quote(project, safe='')}/spans", {"limit": PAGE}):
                    yield from self._page(client, project, page, asked)

    def _page(self, client: httpx.Client, project: str, page: Sequence[Any], asked: set[str]) -> Iterator[Record]:
        ids: dict[str, list[str]] = {"span": [], "trace": [], "session": []}
        for number_, value in enumerate(page):
            place = f"{self.name} project {project} span {number_}"
            made = _span(value, self.name, place)
            yield made
            if not isinstance(made, Span):
                continue
            # The id of a session is requested as Phoenix received it, including quotes.
            session = _text(get_at(made.attributes, "session.id"))
            for what, one in (("span", made.span_id), ("trace", made.trace_id), ("session", session)):
                if one and (key := f"{what} {one}") not in asked:
                    asked.add(key)
                    ids[what].append(one)
        for what, wanted in ids.items():
            for start in range(0, len(wanted), IDS):
                yield from self._annotations(client, project, what, wanted[start : start + IDS])

    def _annotations(self, client: httpx.Client, project: str, what: str, ids: Sequence[str]) -> Iterator[Record]:
        path = f"/v1/projects/{quote(project, safe='')}/{what}_annotations"
        parameters = {f"{what}_ids": list(ids), "limit": 1000}
        # Older versions have only annotations of spans, and answer 404 if there are none.
        for page in self._pages(client, path, parameters, may_lack=True):
            for value in page:
                if isinstance(value, Mapping):
                    yield _annotation(value, what)

    def _projects(self, client: httpx.Client) -> Iterator[str]:
        wanted, names, found = self._access.project, [], False
        for page in self._pages(client, "/v1/projects", {"limit": 100}):
            for project in page:
                names.append(str(project.get("name")))
                if wanted in (None, project.get("name"), project.get("id")):
                    found = True
                    yield str(project.get("id"))
        if wanted is not None and not found:
            raise DataError(f"source '{self.name}': no project '{wanted}'; there are: {', '.join(names) or 'none'}")

    def _pages(
        self, client: httpx.Client, path: str, parameters: Mapping[str, Any], *, may_lack: bool = False
    ) -> Iterator[Sequence[Any]]:
        cursor: str | None = None
        while True:
            answer = self._get(client, path, {**parameters, **({"cursor": cursor} if cursor else {})}, may_lack)
            if answer is None:
                return
            if not isinstance(answer, Mapping) or not isinstance(answer.get("data"), list):
                raise DataError(f"source '{self.name}': {path} did not answer as Phoenix does; is this the address of a Phoenix?")
            yield answer["data"]
            cursor = answer.get("next_cursor")
            if not cursor:
                return

    def _get(self, client: httpx.Client, path: str, parameters: Mapping[str, Any], may_lack: bool) -> Any:
        import httpx

        said = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(pause_before_retry(attempt - 1, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S))
            try:
                answer = client.get(path, params=parameters)
            except httpx.HTTPError as error:
                said = f"{type(error).__name__}: {error}"
                continue
            if may_lack and answer.status_code in (404, 405, 422):
                return None
            if answer.status_code in (401, 403):
                raise DataError(f"source '{self.name}': Phoenix refuses access ({answer.status_code}); set {KEY} to a key of it")
            if answer.status_code == 429 or answer.status_code >= 500:
                said = f"it answered {answer.status_code}"
                continue
            if answer.status_code != 200:
                raise DataError(f"source '{self.name}': {path} answered {answer.status_code}: {answer.text[:200]}")
            try:
                return answer.json()
            except ValueError as error:
                raise DataError(f"source '{self.name}': {path} did not answer JSON; is this the address of a Phoenix?") from error
        raise DataError(f"source '{self.name}': Phoenix could not be asked ({said}); is it running there?")

    def _client(self) -> httpx.Client:
        try:
            import httpx
        except ImportError as error:
            raise PluginError(
                f"a Phoenix server is asked through httpx ({error}): {install_command('astuner-tracing')}"
            ) from error
        key = self._access.environ.get(KEY, "").strip()
        return httpx.Client(
            base_url=self.name.rstrip("/"),
            timeout=self._access.timeout_s,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )


def _span(value: Any, source: str, place: str) -> Span | BadRecord:
    return parse_json_span(value, source, place) if isinstance(value, Mapping) else BadRecord(place=place, reason="no object")


def _annotation(value: Mapping[str, Any], what: str) -> Annotation:
    result = value.get("result")
    result = result if isinstance(result, Mapping) else {}
    return add_score(
        Annotation(
            trace_id=_text(value.get("trace_id")) if what == "trace" else None,
            span_id=_text(value.get("span_id")) if what == "span" else None,
            conversation_id=get_text(value, "session_id") if what == "session" else None,
            name=_text(value.get("name")) or "user_feedback",
            annotator=parse_annotator(value.get("annotator_kind")),
            user=_text(value.get("identifier")) or _text(value.get("user_id")) or "",
            score=to_number(result.get("score")),
            label=_text(result.get("label")),
            comment=_text(result.get("explanation")),
            time_ns=to_nanoseconds(value.get("updated_at")),
        )
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
