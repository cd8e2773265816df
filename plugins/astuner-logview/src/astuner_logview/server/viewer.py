"""The viewer as a program: its parts, put together."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING

from astuner_logview.server.access import Access
from astuner_logview.server.address import read_public_url
from astuner_logview.server.app import build_app
from astuner_logview.server.events import Events
from astuner_logview.server.exports import Exports
from astuner_logview.server.routes import Api
from astuner_logview.server.serving import open_socket, serve
from astuner_logview.server.workers import Workers

if TYPE_CHECKING:
    from astuner_logview.library import Library


class Viewer:
    """A server of a library of runs; it listens as soon as it is made."""

    def __init__(
        self,
        library: Library,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        token: str | None = None,
        public_url: str | None = None,
    ) -> None:
        """Listen on `host`; port 0 takes a free one.

        With a key, browsers ask for it. Without one, an address with a token opens the pages once; `token` is the first one.
        A proxy serves the pages at `public_url`, in which `{port}` is the port. Raises `UsageError`.
        """
        self.library, self.host, self._token = library, host, token
        self._listening = open_socket(host, port)
        self.port: int = self._listening.getsockname()[1]
        public = {} if public_url is None else {"public": read_public_url(public_url, self.port)}
        self.access = Access(port=self.port, host=host, key=key, **public)

    def make_address(self) -> str:
        """Return the address of the pages, with a new token unless a key opens them."""
        if self.access.key is not None:
            return str(self.access.public)
        if self._token is None:
            return f"{self.access.public}?open={self.access.make_token()}"
        token, self._token = self._token, None
        self.access.add_token(token)
        return f"{self.access.public}?open={token}"

    async def serve(self, started: Callable[[str], None], *, opens: bool = False, on_enter: bool = False) -> None:
        """Serve until SIGINT or SIGTERM; `started` gets an address, and another one for each Enter."""
        workers = Workers()
        events = Events(library=self.library, workers=workers)
        specials = {**Exports(library=self.library, workers=workers).routes(), "/api/events": events.answer}
        api = Api(library=self.library, workers=workers, specials=specials)
        app = build_app(self.access, api.answer)

        def begin() -> None:
            started(self.make_address())
            if opens:
                own = self.make_address()
                threading.Thread(target=webbrowser.open, args=(own,), name="browser", daemon=True).start()

        self.library.indexer.start()
        try:
            await serve(
                app,
                self._listening,
                started=begin,
                ending=events.close,
                on_enter=(lambda: started(self.make_address())) if on_enter else None,
            )
        finally:
            workers.close()
            self.library.indexer.stop()
            self._listening.close()
