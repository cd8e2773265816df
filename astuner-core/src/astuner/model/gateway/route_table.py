"""Which wire API answers a request: core's own, or an installed one, which is loaded when its path is first called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import takewhile

from attrs import define, field, frozen

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Candidate
from astuner.model.gateway.wire_apis import CHAT_COMPLETIONS, ApiError, GenerationRoute, ModelRoute, Route, WireApi
from astuner.model.gateway.wire_apis.wire_api import compile_path
from astuner.model.http_server.hosts import App, Scope
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.shared.install_hints import command_for, is_installed
from astuner.shared.known_packages import CORE, read_known_packages

log = logging.getLogger(__name__)

EMBEDDINGS = "/v1/embeddings"
"""Passed on to another server, and part of no wire API."""


class NotServed(ApiError):
    """Refuses a path, or a method of it."""

    def __init__(self, message: str, allowed: Collection[str] = (), code: str | None = None) -> None:
        """`allowed` are the methods that the path has."""
        super().__init__(405 if allowed else 404, message, code=code)
        self.allowed = allowed

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers besides the content type."""
        return [*super().headers, *([(b"allow", ", ".join(self.allowed).encode())] if self.allowed else ())]


@frozen(eq=False)
class ServedRoute:
    """A route and what answers it."""

    api: WireApi
    route: Route
    answer: App

    def matches(self, scope: Scope) -> bool:
        """Whether it is the route of a request."""
        # HEAD is answered as GET is, by a server that leaves the body out.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        return self.route.method == method and compile_path(self.route.path).fullmatch(scope["path"]) is not None

    def has_key(self, scope: Scope) -> bool:
        """Whether a request that others may answer too is meant for this API."""
        return not isinstance(self.route, ModelRoute) or bool(self.api.find_key(scope))


@define(eq=False)
class RouteTable:
    """The routes of all wire APIs."""

    _make_answer: Callable[[WireApi, Route], App]
    _model_name: str = field(kw_only=True)
    _apis: Sequence[WireApi] | None = field(default=None, kw_only=True)
    """Those that are served; None for core's own and the installed ones."""
    _disabled: Collection[str] = field(default=(), kw_only=True)
    """Installed APIs that the configuration leaves out."""
    _served: list[ServedRoute] = field(factory=list, init=False)
    _waiting: list[Candidate] | None = field(default=None, init=False)
    """Installed APIs that are not loaded yet; None before they are looked for."""
    _broken: list[str] = field(factory=list, init=False)
    """Why installed APIs cannot be loaded."""

    def __attrs_post_init__(self) -> None:
        for api in (CHAT_COMPLETIONS,) if self._apis is None else self._apis:
            self._add(api)

    def find(self, scope: Scope) -> tuple[App, Mapping[str, str]]:
        """Return what answers a request, and the parameters in its path; raises ApiError (404, 405)."""
        while (found := self._match(scope)) is None and self._load_next(scope["path"]):
            pass
        found = found or self._match(scope, any_key=True)
        if found is None:
            raise self._refuse(scope)
        parameters = compile_path(found.route.path).fullmatch(scope["path"])
        return found.answer, parameters.groupdict() if parameters else {}

    def find_similar(self, scope: Scope) -> WireApi:
        """Return the API whose clients probably sent a request that no route matches: by its path, then by its key."""

        def rank(served: ServedRoute) -> tuple[int, bool]:
            return _count_common_parts(served.route.path, scope["path"]), bool(served.api.find_key(scope))

        return max(self._served, key=rank).api

    def _match(self, scope: Scope, *, any_key: bool = False) -> ServedRoute | None:
        """Return the loaded route of a request, which is none of those that wait for a key of another kind."""
        return next((served for served in self._served if served.matches(scope) and (any_key or served.has_key(scope))), None)

    def _add(self, api: WireApi) -> None:
        self._served += [ServedRoute(api, route, self._make_answer(api, route)) for route in api.routes]

    def _load_next(self, path: str) -> bool:
        """Load the API that probably serves a path; return False if there is none left."""
        if self._apis is not None:
            return False
        if self._waiting is None:
            offered = Catalog.discover(self._disabled, kinds=("wire_api",)).candidates("wire_api")
            self._waiting = [candidate for candidate in offered if candidate.dist != CORE]
        if not self._waiting:
            return False
        expected = find_known_api(path)
        candidate = min(self._waiting, key=lambda candidate: candidate.name != expected)
        self._waiting.remove(candidate)
        try:
            api = load(candidate)
            if not isinstance(api, WireApi):
                raise PluginError(f"{candidate.blame} is not an astuner.model.gateway.wire_apis.WireApi: {type(api).__name__}")
            self._add(api)
        except PluginError as error:
            # The other APIs are served without it.
            self._broken.append(str(error))
            log.warning("a wire API cannot be loaded: %s", error)
        return True

    def _refuse(self, scope: Scope) -> NotServed:
        asked = f"{scope['method']} {scope['path']}"
        if allowed := list(self._list_methods(scope["path"])):
            return NotServed(f"{asked} is not served; {', '.join(allowed)} is.", allowed)
        if (remedy := find_remedy(scope["path"])) is not None:
            why = f"it is an API of a package that is not installed: {remedy}"
            return NotServed(f"{asked} is not served here: {why}", code="wire_api_not_installed")
        for meant in (f"/v1{scope['path']}", scope["path"].replace("/v1/v1/", "/v1/")):
            if self._match({**scope, "path": meant}, any_key=True) is not None:
                return NotServed(f"{asked} is not served; {meant} is: the base URL ends with one /v1.")
        posted = [served.route.path for served in self._served if isinstance(served.route, GenerationRoute)]
        problems = "".join(f" {problem}" for problem in self._broken)
        return NotServed(
            f"{asked} is not served; {', '.join(f'POST {path}' for path in posted)} and GET /v1/models are.{problems}"
        )

    def _list_methods(self, path: str) -> Iterable[str]:
        """Return the methods of a path that is served."""
        found = ((served.route.method, compile_path(served.route.path).fullmatch(path)) for served in self._served)
        # A path with the name of another model may be none at all.
        methods = {method for method, match in found if match and match.groupdict().get("model") in (None, self._model_name)}
        return sorted({*methods, *(("HEAD",) if "GET" in methods else ())})


def _count_common_parts(path: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda parts: parts[0] == parts[1], zip(path.split("/"), other.split("/"), strict=False)))


def find_known_api(path: str) -> str | None:
    """Return the name of the wire API of a known package that serves a path."""
    paths = read_known_packages().wire_api_paths
    return next((name for name in paths if any(compile_path(pattern).fullmatch(path) for pattern in paths[name])), None)


def find_remedy(path: str) -> str | None:
    """Return the command that installs the package whose wire API serves a path; None for others, and if it is installed."""
    name = find_known_api(path)
    package = None if name is None else read_known_packages().package_of("wire_api", name)
    return None if name is None or package is None or is_installed(package) else command_for("wire_api", name)
