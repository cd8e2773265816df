"""The way to a server: the SDK's client, which server it is, and calls that a stop of the run can end."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field, frozen

from astuner.contract.errors import ConfigError, Interrupted, Problem, RunFailed
from astuner.contract.protocols import Control
from astuner_tinker.options import Options, find_url

KEY = "TINKER_API_KEY"
CREDENTIALS = Path("~/.tinker/credentials.json")
"""Where the SDK keeps a key."""

LOOK_S = 0.5
"""How often a wait looks whether the run is to stop."""


@frozen(kw_only=True)
class Server:
    """Which server answers."""

    name: str
    """As in servers.toml; `unknown` for any other."""
    url: str
    title: str = ""
    """What it calls itself, with its version."""
    sdk: str = ""
    """The releases of the SDK that it speaks with; empty if not known."""


def find_key(url: str | None) -> str | None:
    """Return the key to give to the SDK; None if the SDK finds its own. Raises `ConfigError` if there is none."""
    own = os.environ.get(KEY, "")
    if own and not own.startswith(("tml-", "eyJ")):
        message = f"the environment variable {KEY} holds no key: one begins with tml-, or is a JWT, which begins with eyJ"
        raise ConfigError([Problem(key="tinker.base_url", message=message)])
    if own or os.environ.get("TINKER_CREDENTIAL_CMD") or CREDENTIALS.expanduser().is_file():
        return None
    if url is not None and urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
        return "tml-local"  # the SDK wants a key of this form also for a server that asks for none
    message = (
        f"the environment variable {KEY} holds no key for {url or 'the hosted service'}. Set it (an .env file next to the YAML "
        "is read too); it begins with tml-, or is a JWT."
    )
    raise ConfigError([Problem(key="tinker.base_url", message=message)])


def identify_server(url: str | None) -> Server:
    """Ask a server what it is, before the first call of the SDK. Raises `ConfigError` if none answers."""
    import httpx

    known = tomllib.loads(resources.files(__package__).joinpath("servers.toml").read_text(encoding="utf-8"))
    hosted = known["hosted"]
    if url is None or urlsplit(url).hostname == hosted["host"]:
        return Server(name="hosted", url=url or f"https://{hosted['host']}", sdk=hosted["sdk"])
    try:
        answer = httpx.get(f"{url.rstrip('/')}/openapi.json", timeout=10)
        info = answer.json().get("info", {}) if answer.status_code == httpx.codes.OK else {}
    except httpx.TimeoutException as error:
        message = f"the server at {url} does not answer within 10 s. It may be busy: end what it does, or try again"
        raise ConfigError([Problem(key="tinker.base_url", message=message)]) from error
    except httpx.TransportError as error:
        message = f"no server answers at {url} ({type(error).__name__}). Start it, or mend the address: it begins with http://"
        raise ConfigError([Problem(key="tinker.base_url", message=message)]) from error
    except ValueError:
        info = {}
    title = f"{info.get('title', '')} {info.get('version', '')}".strip()
    name = next((name for name, one in known.items() if one.get("title") == info.get("title", "")), "unknown")
    return Server(name=name, url=url, title=title, sdk=known.get(name, {}).get("sdk", ""))


def check_sdk(server: Server) -> str:
    """Return the version of the SDK. Raises `ConfigError`, with the command, if the server does not speak with it."""
    from packaging.specifiers import SpecifierSet

    installed = version("tinker")
    if server.sdk and installed not in SpecifierSet(server.sdk):
        message = (
            f"{server.title or server.name} at {server.url} speaks with tinker{server.sdk}, and {installed} is installed: "
            f"pip install 'tinker{server.sdk}'"
        )
        raise ConfigError([Problem(key="tinker.base_url", message=message)])
    return installed


class _Pauses(logging.Handler):
    """Shows what the SDK only logs: that a queue, a rate or the account makes it wait."""

    def __init__(self, control: Control) -> None:
        super().__init__(logging.WARNING)
        self._control, self._last = control, ""
        self.paused = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.paused = self.paused or "paused" in text
        if text != self._last:
            self._last = text
            self._control.notify(f"tinker: {text}")


@define(eq=False)
class Service:
    """A server, through the SDK."""

    client: Any
    """`tinker.ServiceClient`"""
    server: Server
    sdk: str
    options: Options
    control: Control
    base_model: str
    run_name: str
    training: bool = False
    """Whether anything is at stake: before, a stop ends every wait."""
    _pauses: _Pauses = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = _Pauses(self.control)
        logging.getLogger("tinker").addHandler(self._pauses)

    def close(self) -> None:
        """Show nothing more of the SDK's log."""
        logging.getLogger("tinker").removeHandler(self._pauses)

    def ask(self, call: Callable[[], Any], what: str) -> Any:
        """Return the answer to a call, or what its future holds; raises `RunFailed` if the server refuses.

        Once the run trains, a stop ends the wait only while the SDK pauses: a step under way is otherwise worth waiting for.
        """
        done: Future[Any] = Future()

        def work() -> None:
            try:
                found = call()
                done.set_result(found.result() if hasattr(found, "result") else found)
            except Exception as error:  # noqa: BLE001 - the SDK raises what it will; the caller says so
                done.set_exception(error)

        self._pauses.paused = False
        Thread(target=work, daemon=True, name="tinker").start()
        while True:
            with suppress(TimeoutError):
                if done.exception(LOOK_S) is None:
                    return done.result()
                break
            if self.control.stop and (self._pauses.paused or not self.training):
                raise Interrupted(f"stopped while the server {'paused' if self._pauses.paused else 'was asked for'} {what}")
        error = done.exception()
        if type(error).__name__ == "AuthenticationError":
            which = f"the key of {KEY}" if os.environ.get(KEY) else f"a run without a key: set {KEY}"
            message = f"{self.describe()} does not take {which} ({describe(error)})"
            raise ConfigError([Problem(key="tinker.base_url", message=message)]) from error
        raise RunFailed(f"{self.describe()}: {what} failed: {describe(error)}", resumable=True) from error

    def describe(self) -> str:
        """Name the server."""
        return f"the Tinker server {self.server.title or self.server.name} at {self.server.url}"

    def list_models(self) -> list[tuple[str | None, int | None]]:
        """Return the models that the server names, each with its longest context if it says."""
        found = self.ask(self.client.get_server_capabilities, "what it serves")
        return [(one.model_name, getattr(one, "max_context_length", None)) for one in found.supported_models]

    def make_training_client(self, seed: int, rank: int | None = None) -> Any:
        """Make new adapters."""
        options = self.options
        return self.ask(
            lambda: self.client.create_lora_training_client(
                base_model=self.base_model,
                rank=rank or options.rank,
                seed=seed,
                train_mlp=options.train_mlp,
                train_attn=options.train_attn,
                train_unembed=options.train_unembed,
                user_metadata={"astuner_run": self.run_name},
            ),
            f"a LoRA model of {self.base_model}",
        )

    def load_training_client(self, path: str, *, optimizer: bool) -> Any:
        """Make a model from a saved state."""
        name = "create_training_client_from_state" + "_with_optimizer" * optimizer
        return self.ask(lambda: getattr(self.client, name)(path), f"the state {path}")


def describe(error: BaseException | None) -> str:
    """Return what the SDK says, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}"


def connect(options: Options, base_model: str, run_name: str, control: Any) -> Service:
    """Look at key, server and SDK, and connect. Raises `ConfigError` for what is missing or does not fit."""
    os.environ["TINKER_TELEMETRY"] = "1" if options.telemetry else "0"
    url = find_url(options)
    key, server = find_key(url), identify_server(url)
    sdk = check_sdk(server)
    import tinker

    given = {"base_url": url, "api_key": key, "project_id": options.project_id}
    client = tinker.ServiceClient(**{name: value for name, value in given.items() if value is not None})
    return Service(client, server, sdk, options, control, options.base_model or base_model, run_name)
