"""What AgentScope Studio shows beyond traces: the run, and messages of some of its episodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from attrs import field, frozen

from astuner.contract.schema import Episode
from astuner_loggers.otel.messages import Document, MessageConverter, shorten_texts
from astuner_loggers.otel.session import WatchedAdapter, describe_error, open_session

LONGEST_TEXT = 100_000
"""Characters of a text in a message."""


@frozen(kw_only=True)
class StudioRun:
    """How Studio names the run."""

    id: str
    project: str
    name: str
    began: datetime = field(factory=datetime.now)


class Studio:
    """Calls the procedures that AgentScope's own hook calls."""

    def __init__(self, address: str, headers: Mapping[str, str], timeout_s: float, run: StudioRun) -> None:
        self._address, self._timeout_s, self._run = address.rstrip("/"), timeout_s, run
        self._headers = dict(headers)
        self._adapter = WatchedAdapter(headers)
        self._session = open_session(self._adapter)

    def register_run(self, status: Literal["running", "done"]) -> str | None:
        """Register the run, or change its status; return why not."""
        about = {"id": self._run.id, "project": self._run.project, "name": self._run.name, "status": status}
        # Studio looks for a process on its own machine, and takes a run without one for ended.
        return self._call("registerRun", {**about, "timestamp": _write_time(self._run.began), "pid": os.getpid()})

    def push_messages(self, messages: Iterator[dict[str, Document]]) -> str | None:
        """Push messages; return why one was not accepted, which is the last that was tried."""
        for message in messages:
            if (problem := self._call("pushMessage", {"runId": self._run.id, **message})) is not None:
                return problem
        return None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _call(self, procedure: str, body: Mapping[str, Document]) -> str | None:
        from requests.exceptions import ConnectionError as Disconnected

        try:
            try:
                self._post(procedure, body)
            except Disconnected:
                # Studio closes a connection that was idle for five seconds, which may be just now. Repeating changes nothing.
                self._post(procedure, body)
        except Exception as error:  # noqa: BLE001 - whatever the connection raises: the caller counts and reports it
            return f"{procedure}: {self._adapter.problem or describe_error(error)}"
        return None if self._adapter.problem is None else f"{procedure}: {self._adapter.problem}"

    def _post(self, procedure: str, body: Mapping[str, Document]) -> None:
        address = f"{self._address}/trpc/{procedure}"
        self._session.post(address, json=body, headers=self._headers, timeout=self._timeout_s, allow_redirects=False)


def write_messages(
    episode: Episode, trace_id: int, title: str, converter: MessageConverter, ended: datetime
) -> Iterator[dict[str, Document]]:
    """Yield what is pushed of an episode: its title and outcome, then each message once, in order.

    Answers and the tools they run belong to one reply of the agent, which a message of somebody else ends.
    """
    about: dict[str, Document] = {"episode": episode.id, "step": episode.step, "split": episode.split}
    about |= {"reward": episode.reward, "success": episode.is_success, "trace": f"{trace_id:032x}"}
    turn = 0
    names: dict[str, str] = {}
    for number, (speaker, role, content) in enumerate(_list_spoken(episode, title, converter)):
        blocks = list(_write_blocks(shorten_texts(content, LONGEST_TEXT), names))
        if role != "assistant":
            turn += 1
        identity = f"{trace_id:032x}-{number}"
        yield {
            "replyId": f"{trace_id:032x}-turn-{turn}-{role}-{speaker}",
            "replyName": speaker,
            "replyRole": role,
            "msg": {
                "id": identity,
                "name": speaker,
                "role": role,
                "content": blocks,
                "metadata": about if number == 0 else {"episode": episode.id},
                "timestamp": _write_time(ended),
            },
        }


def _list_spoken(
    episode: Episode, title: str, converter: MessageConverter
) -> Iterator[tuple[str, Literal["system", "user", "assistant"], list[dict[str, Any]]]]:
    yield "astuner", "system", [{"type": "text", "content": title}]
    for call in episode.calls:
        for message in (*call.messages, *((call.reply,) if call.reply else ())):
            converted = converter.convert(message)
            role = converted["role"]
            # Results of tools are shown with the answer that asked for them.
            shown: Literal["system", "user", "assistant"] = (
                "assistant" if role in ("assistant", "tool") else "user" if role == "user" else "system"
            )
            yield call.agent if shown == "assistant" else shown, shown, converted["parts"]


def _write_blocks(parts: list[dict[str, Any]], names: dict[str, str]) -> Iterator[dict[str, Document]]:
    """Yield AgentScope's content blocks; `names` are those of tools, by the id of their call."""
    for part in parts:
        match part["type"]:
            case "text":
                yield {"type": "text", "text": part["content"]}
            case "reasoning":
                yield {"type": "thinking", "thinking": part["content"]}
            case "tool_call":
                names[part["id"]] = part["name"]
                given = part["arguments"]
                yield {
                    "type": "tool_use",
                    "id": part["id"],
                    "name": part["name"],
                    "input": given if isinstance(given, dict) else {"arguments": given},
                }
            case "tool_call_response":
                name = names.get(part["id"], "tool")
                yield {"type": "tool_result", "id": part["id"], "name": name, "output": part["response"]}
            case "blob":
                source = {"type": "base64", "media_type": part["mime_type"], "data": part["content"]}
                yield {"type": "image", "source": source}
            case "uri":
                yield {"type": "image", "source": {"type": "url", "url": part["uri"]}}
            case other:
                yield {"type": "text", "text": f"[{other}]"}


def _write_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
