"""The logger `otel`: each episode as a trace on servers that take OpenTelemetry."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any, Self

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, optional

from astuner import hookimpl
from astuner.contract.errors import PluginError
from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group
from astuner.shared.install_hints import install_command
from astuner_loggers.otel.address import check_address, complete_address, find_default_address
from astuner_loggers.otel.destination import Destination
from astuner_loggers.otel.encoding import SpanEncoder
from astuner_loggers.otel.episode_trace import TraceFacts
from astuner_loggers.otel.identity import RunIdentity
from astuner_loggers.otel.messages import make_cleaner
from astuner_loggers.otel.otlp import SpanExport
from astuner_loggers.otel.report import Report
from astuner_loggers.otel.selection import choose_episodes
from astuner_loggers.otel.sender import Sender
from astuner_loggers.parameters import collect_secrets

INTERRUPTED_WAIT_S = 5.0
"""After Ctrl-C, the longest wait for a server."""
_REQUIREMENT = "astuner-loggers[otel]"

log = logging.getLogger(__name__)


def _check_headers(_: Any, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, content in value.items():
        if not name or any(sign in f"{name}{content}" for sign in "\r\n\0") or not f"{name}{content}".isascii():
            raise ValueError(f"'{attribute.name}': the header '{name}' must be one line of ASCII characters")


class OtelLogger:
    """Sends each episode as a trace, after its step and in the background."""

    traits = LoggerTraits(truncates=True)

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `otel`."""

        endpoint: str | None = field(default=None, validator=optional(check_address))
        """Where traces go, as OTLP over HTTP: `http://…` or `https://…`, to which `/v1/traces` is added if it is missing. By
        default to `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`, else to `http://localhost:4318`."""
        headers: Mapping[str, str] = field(factory=dict, validator=_check_headers)
        """Headers of each request, such as keys: `{Authorization: 'Bearer ${oc.env:MY_KEY}'}`. Those of
        `OTEL_EXPORTER_OTLP_HEADERS` are sent too."""
        share: float = field(default=1.0, validator=and_(gt(0), le(1)))
        """Share of the tasks whose episodes are sent: the same tasks in every step, each with all its episodes."""
        most: int = field(default=64, validator=ge(1))
        """Episodes of a step, or of a validation, that are sent at most."""
        most_mb: float = field(default=10.0, validator=and_(ge(0.05), le(64.0)))
        """Size of a request, in megabytes. Larger traces are split, and texts of larger spans are cut."""
        timeout_s: float = field(default=30.0, validator=gt(0))
        """Longest time for one request with its repetitions, and longest wait for the server at the end of a run."""

    def __init__(self, options: Options, run_info: RunInfo) -> None:
        _check_installed()
        self._options, self._run_info, self._secrets = options, run_info, collect_secrets(run_info)
        self._is_resumed = self._is_interrupted = False
        self._identity: RunIdentity | None = None
        self._sender: Sender | None = None
        # A variable with a bad address is reported before the run.
        self._address = _find_address(options)

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> Self:
        """Make the logger of a run."""
        return cls(options or cls.Options(), run_info)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Do nothing: metrics are no traces, and other loggers have them."""

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Queue the episodes; if earlier ones were lost, warn once."""
        chosen = choose_episodes(groups, share=self._options.share, most=self._options.most)
        if not chosen:
            return
        ended_ns = self._identify().date(f"{groups[0].split}/{step}", time.time_ns())
        report = Report(ended_ns=ended_ns, episodes=tuple(chosen))
        self._sender = self._sender or Sender(self._make_destination())
        if (problem := self._sender.put(report)) is not None:
            text = f"logger 'otel': traces are lost, the run continues and later ones are tried: {problem}"
            log.warning("%s", self._secrets.hide(text))

    def truncate_after(self, step: int) -> None:
        """Continue the traces of the earlier attempt: what is sent again has the same ids."""
        self._is_resumed = True

    @hookimpl
    def astuner_run_finished(self, exit_code: int) -> None:
        """Note an interruption, after which the wait for the server is short."""
        self._is_interrupted = exit_code == 130

    def close(self) -> None:
        """Send what is left; raises `PluginError` with the number of episodes that were lost."""
        sender, self._sender = self._sender, None
        if sender is None:
            return
        wait_s = self._options.timeout_s
        if self._is_interrupted:
            wait_s = min(wait_s, INTERRUPTED_WAIT_S)
        if (problem := sender.close(wait_s)) is not None:
            raise PluginError(self._secrets.hide(problem))

    def _identify(self) -> RunIdentity:
        """Return the run's identity; nothing is written before the run has started."""
        if self._identity is None:
            self._identity = RunIdentity.open(self._run_info, resumed=self._is_resumed)
            self._identity.save()
        return self._identity

    def _make_destination(self) -> Destination:
        options, info = self._options, self._run_info
        run_id = self._identify().run_id
        most_bytes = round(options.most_mb * 1e6)
        return Destination(
            export=SpanExport(self._address, options.headers, options.timeout_s),
            encoder=SpanEncoder(run_id, _describe_run(info, run_id), most_bytes),
            facts=TraceFacts(run_id=run_id, model=_name_model(info)),
            clean=make_cleaner(self._secrets),
            most_bytes=most_bytes,
        )


def _find_address(options: OtelLogger.Options) -> str:
    if options.endpoint is not None:
        return complete_address(options.endpoint)
    try:
        return find_default_address()
    except ValueError as error:
        raise PluginError(f"logger 'otel': {error}") from None


def _describe_run(info: RunInfo, run_id: str) -> dict[str, str]:
    return {
        # The field that every server lists and filters by.
        "service.name": info.project_name,
        "service.instance.id": run_id,
        "service.version": version("astuner-core"),
        "openinference.project.name": info.project_name,
        "astuner.experiment": info.experiment_name,
        "astuner.backbone": info.backbone,
    }


def _name_model(info: RunInfo) -> str:
    path = info.config.model.path
    # A directory says where it is on this machine.
    return (PurePath(path).name if PurePath(path).is_absolute() else path) or "model"


def _check_installed() -> None:
    try:
        missing = find_spec("opentelemetry.sdk.trace") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None
    except ModuleNotFoundError:
        missing = True
    if missing:
        packages = "packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http"
        raise PluginError(f"logger 'otel' needs the {packages}: {install_command(_REQUIREMENT)}")
