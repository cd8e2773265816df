"""What a run holds in memory, on each GPU, and whether it fits; computed before anything is loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.errors import AstunerError, Problem
from astuner.settings.config.adapters import read_adapters
from astuner.settings.memory_estimate.model_file import read_model_config
from astuner.settings.memory_estimate.model_shape import LINEAR, ModelShape
from astuner.settings.memory_estimate.parts import (
    GIB,
    MAIN_MEMORY,
    PHASES,
    Hardware,
    MemoryPart,
    MemoryPlan,
    MemoryQuestion,
    Phase,
)
from astuner.settings.plugins.drivers import load_with_traits
from astuner.shared.processes.gpus import gpu_count, measure_main_memory_bytes, smallest_gpu_bytes

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo
    from astuner.settings.plugins.component import Component

MOST_KEYS = 4
"""That are named in an error."""
KEY = "astuner.trainer_common.memory_check"


@frozen(kw_only=True)
class DeviceMemory:
    """What each of some equal GPUs holds."""

    gpus: tuple[int, ...]
    """Their numbers; (MAIN_MEMORY,) is the machine's own memory."""
    capacity: int | None
    """Bytes of each; None if unknown."""
    parts: tuple[MemoryPart, ...]

    @property
    def name(self) -> str:
        """As people call it: `GPU 0`, `GPUs 1-7`, `main memory`."""
        if self.gpus == (MAIN_MEMORY,):
            return "main memory"
        return f"GPU {self.gpus[0]}" if len(self.gpus) == 1 else f"GPUs {_format_numbers(self.gpus)}"

    def total(self, phase: Phase) -> int:
        """Return the bytes that are held in a phase."""
        return sum(part.bytes for part in self.parts if phase in part.phases)

    @property
    def fullest(self) -> Phase:
        """The phase in which most is held."""
        return max(PHASES, key=self.total)


@frozen(kw_only=True)
class MemoryReport:
    """A run's memory."""

    shape: ModelShape | None
    devices: tuple[DeviceMemory, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Why it does not fit."""
    unknown: str = ""
    """The reason why there is no plan; empty if there is one."""


def look_at_hardware() -> Hardware:
    """Return this machine's GPUs and memory."""
    gpus = gpu_count()
    return Hardware(gpus=gpus, gpu_bytes=smallest_gpu_bytes() if gpus else None, main_bytes=measure_main_memory_bytes())


def plan_memory(components: Iterable[Component], run_info: RunInfo, hardware: Hardware, *, fetch: bool = False) -> MemoryReport:
    """Return what the backbone and the engine of a run will hold. `fetch` asks the hub for a `config.json` that is not here."""
    question = _read_question(run_info, hardware, fetch)
    if isinstance(question, str):
        return MemoryReport(shape=None, unknown=question)
    plans: list[MemoryPlan] = []
    for component in components:
        target, traits = load_with_traits(component.candidate)
        if traits.plans_memory:
            try:
                plans.append(target.plan_memory(run_info, question))
            except AstunerError as error:
                return MemoryReport(shape=question.shape, unknown=str(error))
    if not plans:
        return MemoryReport(shape=question.shape, unknown=f"the backbone '{run_info.backbone}' does not plan its memory")
    devices = tuple(_gather_devices([part for plan in plans for part in plan.parts], hardware))
    problems = [*(problem for plan in plans for problem in plan.problems), *(_find_overflow(devices))]
    return MemoryReport(shape=question.shape, devices=devices, problems=tuple(problems))


def _read_question(run_info: RunInfo, hardware: Hardware, fetch: bool) -> MemoryQuestion | str:
    """Return what the planners are asked, or the reason why the memory cannot be planned."""
    model = run_info.config.model
    adapters = read_adapters(Path(model.path))
    path = adapters.base if adapters is not None else model.path
    config = read_model_config(path, fetch=fetch)
    if config is None:
        return f"the config.json of {path or 'model.path'} is neither on this disk nor in the cache of the hub"
    shape = ModelShape.from_config(config)
    if shape is None:
        return f"{path} ({config.get('model_type', 'no model_type')}) is not a dense decoder, and others are not counted"
    targets = model.target_modules
    if isinstance(targets, str) and targets in LINEAR:
        targets = (targets,)
    rank = adapters.lora_rank if adapters is not None else sum(model.lora_ranks)
    return MemoryQuestion(shape=shape, hardware=hardware, lora_rank=rank, target_modules=targets)


def _gather_devices(parts: Sequence[MemoryPart], hardware: Hardware) -> Iterator[DeviceMemory]:
    """Yield the GPUs, those with equal parts together, then the main memory."""
    by_gpu: defaultdict[int, list[MemoryPart]] = defaultdict(list)
    for part in parts:
        for gpu in part.gpus:
            by_gpu[gpu].append(part)
    alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for gpu, held in by_gpu.items():
        alike[tuple(id(part) for part in held)].append(gpu)
    for gpus in sorted(alike.values(), key=lambda numbers: (numbers[0] == MAIN_MEMORY, numbers)):
        capacity = hardware.main_bytes if gpus[0] == MAIN_MEMORY else hardware.gpu_bytes
        yield DeviceMemory(gpus=tuple(sorted(gpus)), capacity=capacity, parts=tuple(by_gpu[gpus[0]]))


def _find_overflow(devices: Iterable[DeviceMemory]) -> Iterator[Problem]:
    for device in devices:
        phase = device.fullest
        if device.capacity is None or device.total(phase) <= device.capacity:
            continue
        held = sorted((part for part in device.parts if phase in part.phases), key=lambda part: -part.bytes)
        keys = list(dict.fromkeys(key for part in held for key in part.keys))[:MOST_KEYS]
        largest = ", ".join(f"{part.name} {part.bytes / GIB:.1f}" for part in held[:4])
        message = (
            f"while {phase}, {device.name} would hold {device.total(phase) / GIB:.1f} GiB of {device.capacity / GIB:.1f} "
            f"({largest}). These settings make it smaller: {'; '.join(keys)}. `warn` here starts the run anyway"
        )
        yield Problem(key=KEY, message=message)


def _format_numbers(numbers: Sequence[int]) -> str:
    if len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))
