"""Whether Ray is installed, and whether the cluster that the environment names answers."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import evolve

from astuner_tools.doctor.rows import Row

VARIABLE = "RAY_ADDRESS"
TIMEOUT_S = 1.0


def ray_rows() -> Iterator[Row]:
    """Yield Ray's version and the state of the cluster."""
    address = os.environ.get(VARIABLE, "")
    try:
        yield Row(area="ray", what=f"ray {version('ray')}", detail="installed")
    except PackageNotFoundError:
        detail = "not installed; the backbones that need it install it"
        yield Row(area="ray", what="ray", status="missing", detail=detail)
        if not address:
            return
    if not address:
        yield Row(area="ray", what=VARIABLE, detail="not set: a run that needs Ray starts its own")
        return
    yield _check_cluster(_find_local_cluster() if address == "auto" else address)


def _check_cluster(address: str | None) -> Row:
    broken = Row(area="ray", what=VARIABLE, status="broken", remedy=f"start the cluster, or set {VARIABLE} to host:port")
    if address is None:
        remedy = f"ray start --head, or unset {VARIABLE}"
        return evolve(broken, detail="auto, and no cluster runs on this machine", remedy=remedy)
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        return evolve(broken, detail=f"{address!r} is not host:port")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        return evolve(broken, detail=f"{address} does not answer within {TIMEOUT_S:g} s: {error}")
    return Row(area="ray", what=VARIABLE, detail=f"{address} answers")


def _find_local_cluster() -> str | None:
    # Ray writes there which cluster was started last; `auto` means that one.
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
    return file.read_text(encoding="utf-8").strip() or None if file.is_file() else None
