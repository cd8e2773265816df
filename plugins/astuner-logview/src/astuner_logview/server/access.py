"""Who may read: the holder of the address that was printed, or of the key, and no web page of anybody else."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files

from attrs import Factory, define, field
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from astuner_logview.server.address import Address
from astuner_logview.server.refusals import Refusal

POST_PATHS = frozenset({"/api/config/explain"})
KEPT_S = 30 * 24 * 3600
"""The browser keeps its cookie this long; the server forgets it when it ends."""
MOST_TOKENS = 100
"""Addresses that were printed and not opened; older ones stop working."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On every answer."""


@define(eq=False, kw_only=True)
class Access:
    """The rules of one server. With a key, browsers ask for it; without one, a one-time token in the address opens the pages."""

    port: int
    host: str = "127.0.0.1"
    """The address of this machine that the server listens on."""
    key: str | None = field(default=None, repr=False)
    public: Address = Factory(lambda self: Address(host=self.host, port=self.port), takes_self=True)
    """What browsers know; a proxy may call the server by its own name instead."""
    _tokens: list[str] = field(factory=list, repr=False, init=False)
    _sessions: set[str] = field(factory=set, repr=False, init=False)

    def make_token(self) -> str:
        """Return a new token, which opens the pages once."""
        self.add_token(token := secrets.token_urlsafe(24))
        return token

    def add_token(self, token: str) -> None:
        """Let a token open the pages once."""
        self._tokens = [*self._tokens, token][-MOST_TOKENS:]

    def check(self, request: Request) -> Response | None:
        """Return None for a request to be answered, or what is answered in its place; raises `Refusal`."""
        self._check_names(request)
        self._check_method(request)
        if self._has_session(request) or self._has_key(request):
            return RedirectResponse("./", 303) if _is_opening(request) else None
        if self.key is not None:
            return _ask_for_key()
        if _is_opening(request) and request.method == "GET" and self._use_token(request.query_params["open"]):
            return self._begin_session()
        if request.scope["path"].startswith("/api/"):
            raise Refusal("this browser has not opened the viewer", "open the address that `astuner logview` printed", status=403)
        return HTMLResponse(_read_page("closed.html"), 403, {"Cache-Control": "no-store"})

    def _check_names(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            raise Refusal("a request names one host", status=400)
        host = hosts[0].lower()
        # Without a key, a web page could point its own name at this address. With one, it cannot know the key.
        own = Address(host=self.host, port=self.port).hosts
        if self.key is None and host not in (*own, f"localhost:{self.port}", *self.public.hosts):
            raise Refusal(
                f"this server is not called {host[:200]!r}",
                f"open {self.public}; through a tunnel, use the same port on both sides; behind a proxy, start the viewer with "
                "--public-url and the address there",
                status=403,
            )
        plain = None if host in self.public.hosts else f"http://{host}"
        if request.headers.get("origin") not in (None, plain, self.public.origin):
            raise Refusal("another web page may not ask this server", "behind a proxy, start it with --public-url", status=403)
        # Pages of other ports of this machine are of the same site, so that their requests carry the cookie.
        site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
        if site not in (None, "same-origin", "none") and (mode != "navigate" or request.scope["path"] != "/"):
            raise Refusal("another web page may not ask this server", status=403)

    def _check_method(self, request: Request) -> None:
        posts = request.scope["path"] in POST_PATHS
        if request.method in (("POST",) if posts else ("GET", "HEAD")):
            if posts:
                _check_post(request)
            return
        raise Refusal(f"{request.method[:20]} is not possible here", "the viewer only reads", status=405)

    def _has_session(self, request: Request) -> bool:
        try:
            cookies = SimpleCookie(request.headers.get("cookie", ""))
        except CookieError:
            return False
        given = cookies.get(self._cookie)
        return given is not None and _is_among(given.value, self._sessions)

    def _has_key(self, request: Request) -> bool:
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if self.key is None or kind.lower() != "basic":
            return False
        try:
            _, _, given = base64.b64decode(value, validate=True).partition(b":")
        except ValueError:
            return False
        return hmac.compare_digest(given, self.key.encode())

    def _use_token(self, given: str) -> bool:
        found = [token for token in self._tokens if hmac.compare_digest(token.encode(), given.encode())]
        self._tokens = [token for token in self._tokens if token not in found]
        return bool(found)

    def _begin_session(self) -> Response:
        self._sessions.add(session := secrets.token_urlsafe(32))
        answer = RedirectResponse("./", 303, {"Cache-Control": "no-store"})
        secure = self.public.scheme == "https"
        # Without a path, the browser sends it below the address that was opened, and not to what else a proxy serves.
        answer.set_cookie(self._cookie, session, max_age=KEPT_S, path=None, secure=secure, httponly=True, samesite="strict")
        return answer

    @property
    def _cookie(self) -> str:
        # Cookies do not know ports: two viewers on one machine would take each other's.
        return f"astuner_logview_{self.port}"


def _is_opening(request: Request) -> bool:
    return request.scope["path"] == "/" and "open" in request.query_params


def _check_post(request: Request) -> None:
    if request.headers.get("origin") is None:
        raise Refusal("this request comes from a page of the viewer only", "send its Origin", status=403)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal("the content type must be application/json", status=415)


def _is_among(given: str, known: set[str]) -> bool:
    return any(hmac.compare_digest(given.encode(), one.encode()) for one in known)


def _ask_for_key() -> Response:
    headers = {"WWW-Authenticate": 'Basic realm="astuner logview: any name, and the key as the password"'}
    return HTMLResponse(_read_page("closed.html"), 401, {**headers, "Cache-Control": "no-store"})


def _read_page(name: str) -> str:
    return (files("astuner_logview") / "server" / name).read_text(encoding="utf-8")
