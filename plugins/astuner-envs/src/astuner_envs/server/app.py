"""The endpoints of the server."""

from __future__ import annotations

import hmac
import json
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from astuner.contract.errors import UsageError
from astuner_envs.server.body import Body, read_body
from astuner_envs.server.faults import BadRequest, Fault, ServerFull, Unauthorised
from astuner_envs.server.instances import Instances
from astuner_envs.server.settings import Settings
from astuner_envs.server.surrogates import mend_pairs
from astuner_envs.server.tasks import Tasks

Handler = Callable[[Body], Awaitable[Any]]


class Endpoints:
    """Answers requests; every answer is JSON, and every failure a status with one line of `detail`."""

    def __init__(self, settings: Settings, instances: Instances) -> None:
        self._settings, self._instances = settings, instances
        self._tasks = [Tasks(number, world) for number, world in enumerate(settings.worlds)]

    def check(self, lists_tasks: Sequence[bool]) -> None:
        """Raise `UsageError` for an environment whose tasks are unknown."""
        for world, lists in zip(self._settings.worlds, lists_tasks, strict=True):
            if not lists and not world.task_files:
                raise UsageError(
                    f"astuner env serve: environment {world.name!r} lists no tasks (it has no `list_tasks`): give them by "
                    "--tasks train=FILE.jsonl --tasks validation=FILE.jsonl"
                )

    def build_app(self) -> Starlette:
        """Return the application."""
        posts: Mapping[str, Handler] = {
            "get_env_profile": self._profile,
            "create": self._create,
            "step": self._step,
            "evaluate": self._evaluate,
            "get_info": self._info,
        }
        routes = [Route("/healthz", self._healthz), Route("/envs", self._guard(self._envs))]
        routes += [Route(f"/{name}", self._guard(self._wrap_handler(does)), methods=["POST"]) for name, does in posts.items()]
        routes.append(Route("/release", self._guard(self._release), methods=["POST"]))
        return Starlette(routes=routes)

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("OK")

    async def _envs(self, request: Request) -> Response:
        rows = []
        for number, world in enumerate(self._settings.worlds):
            splits = {name: len(await self._tasks[number].ids(name, self._instances)) for name in self._tasks[number].splits}
            rows.append({"name": world.name, "splits": splits})
        accounts = {**self._instances.accounts, "most": self._settings.max_instances}
        return JSONResponse({"success": True, "data": {"environments": rows, "instances": accounts}})

    async def _profile(self, body: Body) -> Any:
        return await self._tasks[self._world(body)].ids(body.split, self._instances)

    async def _create(self, body: Body) -> Any:
        world = self._world(body)
        if not body.task_id:
            raise BadRequest("`task_id` is missing")
        return await self._instances.create(world, self._tasks[world].task(body.task_id, body.params), body.instance_id)

    async def _step(self, body: Body) -> Any:
        if not body.messages:
            raise BadRequest("`messages` is missing: it holds the action, as {'role': 'assistant', 'content': TEXT}")
        action = {"role": "assistant", "content": "", **body.messages}
        return await self._instances.step(body.instance_id, action, body.number)

    async def _evaluate(self, body: Body) -> Any:
        return await self._instances.evaluate(body.instance_id, bool(body.params.get("sparse")))

    async def _info(self, body: Body) -> Any:
        return self._instances.info(body.instance_id)

    async def _release(self, request: Request) -> Response:
        body = await read_body(request)
        return JSONResponse({"success": await self._instances.release(body.instance_id), "data": None})

    def _world(self, body: Body) -> int:
        world = self._settings.find_world(body.env_type)
        if world is None:
            there = ", ".join(each.name for each in self._settings.worlds)
            raise BadRequest(f"there is no environment {body.env_type!r} here; served: {there}")
        return self._settings.worlds.index(world)

    def _wrap_handler(self, does: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            found = {"success": True, "data": await does(await read_body(request))}
            # An environment may cut a character of another program's output in two.
            text = mend_pairs(json.dumps(found, allow_nan=False, ensure_ascii=False))
            return Response(text, media_type="application/json")

        return answer

    def _guard(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def guard(request: Request) -> Response:
            try:
                self._check_token(request)
                return await answer(request)
            except Fault as fault:
                headers = {"Retry-After": "1"} if isinstance(fault, ServerFull) else {}
                return JSONResponse({"detail": mend_pairs(str(fault))}, fault.status, headers=headers)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:  # noqa: BLE001  # our own mistake fails one request, and is logged
                traceback.print_exc()
                return JSONResponse({"detail": f"the server failed: {type(error).__name__}"}, 500)

        return guard

    def _check_token(self, request: Request) -> None:
        token = self._settings.token
        given = request.headers.get("authorization", "")
        if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise Unauthorised("this server wants its token: send `Authorization: Bearer TOKEN`")
