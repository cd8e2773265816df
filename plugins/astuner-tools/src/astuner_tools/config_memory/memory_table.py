"""A plan of memory as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astuner.settings.memory_estimate.parts import GIB, PHASES, Phase
from astuner.settings.planning.memory_plan import DeviceMemory, MemoryReport

NARROW = 0.9
"""Of a device: above it little is left for fragments and the driver."""


def format_report(report: MemoryReport) -> Iterator[str]:
    """Yield the lines of a table for each kind of device."""
    if report.unknown:
        yield f"No plan of memory: {report.unknown}."
        return
    if report.shape is not None:
        yield f"{report.shape.parameters / 1e6:,.1f} million parameters. Arithmetic, in GiB on each device."
    for device in report.devices:
        yield ""
        yield from _format_device(device)


def _format_device(device: DeviceMemory) -> Iterator[str]:
    phases = [phase for phase in PHASES if device.total(phase)]
    head = (device.name.upper(), *(phase.upper() for phase in phases), "HOW")
    rows = [
        (part.name, *(_format_gib(part.bytes) if phase in part.phases else "-" for phase in phases), part.because)
        for part in device.parts
    ]
    yield from _align([head, *rows, ("sum", *(_format_gib(device.total(phase)) for phase in phases), _judge(device, phases))])


def _judge(device: DeviceMemory, phases: Sequence[Phase]) -> str:
    if device.capacity is None:
        return "of a size that is not known here"
    share = max(device.total(phase) for phase in phases) / device.capacity
    of = f"{share:.0%} of {device.capacity / GIB:.1f}"
    if share > 1:
        return f"{of}: does not fit"
    return f"{of}: fits, with little left for fragments and the driver" if share > NARROW else f"{of}: fits"


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        name, *numbers, last = row
        middle = "".join(f"  {number:>{width}}" for number, width in zip(numbers, widths[1:-1], strict=True))
        yield f"{name:<{widths[0]}}{middle}  {last}".rstrip()


def _format_gib(count: int) -> str:
    """Return bytes as GiB; what is little is not nothing."""
    return "<0.01" if 0 < count < GIB / 200 else f"{count / GIB:.2f}"
