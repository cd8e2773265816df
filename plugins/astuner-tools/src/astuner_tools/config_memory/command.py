"""`astuner config memory`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve

from astuner.cli.options import add_config_options
from astuner.cli.output import print_json
from astuner.cli.own_venv import enter_venv_of
from astuner.contract.errors import ConfigError
from astuner.settings.memory_estimate.parts import PHASES
from astuner_tools.config_memory.gpu_option import GPUS

if TYPE_CHECKING:
    from astuner.settings.planning.memory_plan import MemoryReport


EXAMPLE = """\b
Examples:
  astuner config memory --conf tune.yaml --backbone local
  astuner config memory --conf tune.yaml --gpus 8x80"""


@click.command(epilog=EXAMPLE, short_help="Show what each GPU will hold, and whether it fits.")
@add_config_options
@click.option("--gpus", type=GPUS, help="Plan for nodes of N GPUs with GB gigabytes each, not for this machine.")
def memory(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool, gpus: tuple[int, int] | None) -> int:
    """Show what each GPU will hold while playing, sending weights and training, and whether it fits. Nothing is started."""
    from astuner.settings.config.loading import load_config
    from astuner.settings.config.native import align
    from astuner.settings.planning.chooser import Chooser
    from astuner.settings.planning.engine_choice import choose_engine
    from astuner.settings.planning.key_coverage import HonourTable
    from astuner.settings.planning.machine_settings import make_run_info
    from astuner.settings.planning.memory_plan import look_at_hardware, plan_memory
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component
    from astuner.settings.plugins.drivers import load
    from astuner_tools.config_memory.memory_table import format_report

    enter_venv_of(conf, overrides, backbone)
    loaded = load_config(conf, overrides, backbone)
    catalog = Catalog.discover(loaded.config.plugins.disabled, kinds=("backbone", "engine"))
    candidate = catalog.find("backbone", loaded.config.backbone, config_dir=loaded.path.parent, key="astuner.backbone")
    trainer = Component(candidate=candidate)
    engine = choose_engine(Chooser(loaded, catalog), loaded, catalog, trainer).component
    table = HonourTable.of(load(candidate), candidate.name, load(engine.candidate) if engine else None)
    native = None if table.alignment is None else align(table.alignment, loaded)
    if native is not None and native.problems:
        raise ConfigError(native.problems)
    hardware = look_at_hardware()
    if gpus is not None:
        hardware = evolve(hardware, gpus=gpus[0], gpu_bytes=gpus[1], main_bytes=None, here=False)
    info = make_run_info(loaded, candidate.name, native.tree if native else {})
    report = plan_memory(filter(None, (trainer, engine)), info, hardware, fetch=True)
    if in_json:
        print_json(_build_document(report))
        return 2 if report.problems else 0
    click.echo("\n".join(format_report(report)))
    if report.problems:
        raise ConfigError(report.problems)
    return 0


def _build_document(report: MemoryReport) -> dict[str, Any]:
    devices = [
        {
            "gpus": list(device.gpus),
            "name": device.name,
            "capacity": device.capacity,
            "totals": {phase: device.total(phase) for phase in PHASES},
            "parts": [{**asdict(part), "gpus": list(part.gpus)} for part in device.parts],
        }
        for device in report.devices
    ]
    return {
        "parameters": None if report.shape is None else report.shape.parameters,
        "devices": devices,
        "unknown": report.unknown or None,
        "problems": [str(problem) for problem in report.problems],
    }
