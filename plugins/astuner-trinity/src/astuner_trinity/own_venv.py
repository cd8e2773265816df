"""What Trinity needs to train, in a virtual environment of its own: its vLLM and verl 0.8 fit few others."""

from __future__ import annotations

from pathlib import Path

from astuner.contract.protocols import OwnVenv

FILES = Path(__file__).parent / "venv"

OWN_VENV = OwnVenv(
    in_place_with="trinity-rft",
    requirements=FILES / "requirements.txt",
    lock=FILES / "lock.txt",
    overrides=FILES / "overrides.txt",
    systems=(("linux", "x86_64"),),
)
