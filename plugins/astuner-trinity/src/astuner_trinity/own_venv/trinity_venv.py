"""What Trinity needs to train, in a virtual environment of its own: its vLLM and verl 0.8 fit few others."""

from __future__ import annotations

from pathlib import Path

from astuner_trinity.own_venv.locked_venv import LockedVenv

FILES = Path(__file__).parents[1] / "venv"

OWN_VENV = LockedVenv(
    in_place_with="trinity-rft",
    requirements=FILES / "requirements.txt",
    lock=FILES / "lock.txt",
    overrides=FILES / "overrides.txt",
    systems=(("linux", "x86_64"),),
)
