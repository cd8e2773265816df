"""The endpoints of an EnvService server, with retries."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import PluginError
from astuner.contract.schema import Message
from astuner.shared.clients import parse_retry_after, spread
from astuner_env_service.client.addresses import is_local
from astuner_env_service.client.failures import (
    NOT_NOW,
    EnvServiceFailed,
    Patience,
    Repeat,
    describe_failure,
    is_undelivered,
    may_repeat_answer,
    may_repeat_error,
)
from astuner_env_service.client.states import InvalidState, State, parse_number, read_state
from astuner_env_service.client.token import TOKEN

if TYPE_CHECKING:
    import httpx


BLANK: Mapping[str, Any] = {"env_type": "default", "task_id": None, "instance_id": None}
"""What a request holds in which nothing else is given."""


class EnvServiceClient:
    """Talks to one server, from one event loop. Every failure is an `EnvServiceFailed` that names server and endpoint."""

    def __init__(self, url: str, *, token: str | None = None, patience: Patience | None = None) -> None:
        """Nothing is sent, and the library `httpx` not imported, before the first request. `token` is sent as a bearer's."""
        self.url = url.rstrip("/")
        self._token, self._patience = token, patience or Patience()
        self._http: httpx.AsyncClient | None = None

    async def task_ids(self, env_type: str, split: str, params: Mapping[str, Any] | None = None) -> list[str]:
        """Return the ids of a split's tasks, in the server's order."""
        data = await self._post("get_env_profile", env_type=env_type, params={**(params or {}), "split": split})
        if not isinstance(data, list) or any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in data):
            raise self._odd("get_env_profile", f"a list of task ids is expected, not {data!r:.200}")
        return [str(one) for one in data]

    async def create(self, env_type: str, task_id: str, instance_id: str, params: Mapping[str, Any] | None = None) -> State:
        """Make an instance; waits for a server, and a place in it, for as long as `Patience.place_timeout_s` says.

        A retry has the same id, so it creates no second instance.
        """
        data = await self._post(
            "create",
            place_timeout_s=self._patience.place_timeout_s,
            env_type=env_type,
            task_id=task_id,
            instance_id=instance_id,
            params=params,
        )
        return self._state("create", data)

    async def step(
        self, instance_id: str, action: Message, params: Mapping[str, Any] | None = None, *, repeat: Repeat = "undelivered"
    ) -> State:
        """Act. By default retried only when the request certainly did not reach the server."""
        data = await self._post("step", instance_id=instance_id, messages=action, params=params, repeat=repeat)
        return self._state("step", data)

    async def evaluate(self, instance_id: str, *, sparse: bool = False) -> float:
        """Return the score of an instance: `sparse` asks only for right or wrong."""
        data = await self._post("evaluate", instance_id=instance_id, params={"sparse": sparse})
        if data is None:
            raise self._odd("evaluate", "there is no score")
        try:
            return parse_number(data, "data")
        except InvalidState as error:
            raise self._odd("evaluate", str(error)) from error

    async def info(self, instance_id: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return what the server reports of an instance; this counts as a use of it."""
        return await self._post("get_info", instance_id=instance_id, params=params)

    async def release(self, instance_id: str, *, patience: Patience | None = None) -> bool:
        """End an instance; False when the server did not know it."""
        answer = await self._answer("release", patience=patience, instance_id=instance_id)
        return bool(answer.get("success"))

    async def healthy(self) -> bool:
        """Whether the server reports itself healthy."""
        import httpx

        try:
            response = await self._client().get(f"{self.url}/healthz")
        except httpx.TransportError:
            return False
        return response.status_code == 200

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    async def _post(self, endpoint: str, *, repeat: Repeat = "failed", **keys: Any) -> Any:
        answer = await self._answer(endpoint, repeat=repeat, **keys)
        if answer.get("success") is False:
            raise EnvServiceFailed(
                f"{self._where(endpoint)} failed: {describe_failure(answer.get('detail', answer.get('data')))}", status=200
            )
        if "data" not in answer:
            raise self._odd(endpoint, f"an answer with `data` is expected, not {answer!r:.200}")
        return answer["data"]

    async def _answer(
        self,
        endpoint: str,
        *,
        repeat: Repeat = "failed",
        patience: Patience | None = None,
        place_timeout_s: float = 0.0,
        messages: Message | None = None,
        params: Mapping[str, Any] | None = None,
        **keys: str,
    ) -> Mapping[str, Any]:
        body = {**BLANK, **keys, "messages": dict(messages or {}), "params": dict(params or {})}
        patience = patience or self._patience
        content, attempt, waits, until_s = self._encode(endpoint, body), 0, 0, time.monotonic() + place_timeout_s
        while True:
            try:
                return await self._send(endpoint, content, repeat, patience)
            except EnvServiceFailed as failure:
                pause_s = spread(patience.compute_pause_s(attempt + waits, failure.wait_s))
                if failure.undone and time.monotonic() + pause_s <= until_s:
                    waits += 1
                elif failure.again and attempt < patience.max_retries:
                    attempt += 1
                else:
                    raise
                await asyncio.sleep(pause_s)

    def _encode(self, endpoint: str, body: Mapping[str, Any]) -> bytes:
        try:
            # A model may write half of a character, which UTF-8 cannot encode.
            return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")
        except (TypeError, ValueError) as error:
            raise EnvServiceFailed(
                f"{self._where(endpoint)} cannot be asked: the request cannot be written as JSON: {error}"
            ) from error

    async def _send(self, endpoint: str, content: bytes, repeat: Repeat, patience: Patience) -> Mapping[str, Any]:
        http = self._client()
        import httpx

        try:
            response = await http.post(
                f"{self.url}/{endpoint}",
                content=content,
                headers={"Content-Type": "application/json"},
                timeout=patience.timeout_s,
            )
        except (httpx.TransportError, httpx.InvalidURL) as error:
            what = f"no answer within {patience.timeout_s:g} s" if isinstance(error, httpx.ReadTimeout) else repr(error)
            raise EnvServiceFailed(
                f"{self._where(endpoint)} could not be asked: {what}",
                again=may_repeat_error(error, repeat),
                undone=is_undelivered(error),
            ) from error
        if response.status_code == 200:
            return self._read(endpoint, response)
        status = response.status_code
        raise EnvServiceFailed(
            self._describe_refusal(endpoint, response),
            status=status,
            again=may_repeat_answer(status, repeat),
            undone=status in NOT_NOW,
            wait_s=parse_retry_after(response.headers.get("retry-after")),
        )

    def _read(self, endpoint: str, response: httpx.Response) -> Mapping[str, Any]:
        try:
            answer = response.json()
        except ValueError as error:
            raise self._odd(endpoint, f"invalid JSON: {response.text[:120]!r}") from error
        if not isinstance(answer, Mapping):
            raise self._odd(endpoint, f"an object is expected, not {answer!r:.120}")
        return answer

    def _describe_refusal(self, endpoint: str, response: httpx.Response) -> str:
        try:
            answer = response.json()
            detail = answer.get("detail", answer) if isinstance(answer, Mapping) else answer
        except ValueError:
            detail = response.text
        if response.status_code in (401, 403):
            given = "was refused" if self._token else "is not set"
            return f"{self._where(endpoint)} wants a token ({response.status_code}); the environment variable {TOKEN} {given}"
        text = f"{self._where(endpoint)} answered {response.status_code}: {describe_failure(detail)}"
        return text.replace(self._token, "***") if self._token else text

    def _state(self, endpoint: str, data: Any) -> State:
        try:
            return read_state(data)
        except InvalidState as error:
            raise self._odd(endpoint, str(error)) from error

    def _odd(self, endpoint: str, what: str) -> EnvServiceFailed:
        return EnvServiceFailed(f"{self._where(endpoint)} gave an odd answer: {what}", status=200)

    def _where(self, endpoint: str) -> str:
        return f"environment service {self.url}: /{endpoint}"

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            try:
                import httpx
            except ImportError as error:
                raise PluginError("an environment service needs the library httpx: pip install httpx") from error
            self._http = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
                # A kept connection may be closed by the server just when a step is on its way: it would be unknown whether
                # that was taken. A fresh one either opens or does not.
                limits=httpx.Limits(max_keepalive_connections=0),
                # Reading the certificates takes tens of milliseconds, once per episode.
                verify=self.url.startswith("https:"),
                trust_env=not is_local(self.url),
            )
        return self._http
