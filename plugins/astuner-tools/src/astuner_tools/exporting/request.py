"""What a user asks of `astuner export`."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.shared.install_hints import install_command

FORMATS = ("hf", "gguf", "adapter")
QUANTIZED = "q8_0"
"""Blocks of 32 weights with 8 bits each and one scale."""
DTYPES = ("float32", "bfloat16", "float16", QUANTIZED)
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@frozen(kw_only=True)
class ExportRequest:
    """The options of the command."""

    run: str
    checkpoint: str
    adapter: str | None
    """Whose adapters, of a run with several (`model.adapters`)."""
    kind: str | None
    """One of `FORMATS`; None for adapters of a run that has them, and a whole model of one that has none."""
    merge_lora: bool
    dtype: str | None
    out: Path
    base: str | None
    push: str | None
    public: bool

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other, and for what is not installed."""
        if self.merge_lora and self.kind != "hf":
            raise UsageError(f"--merge-lora is the same as --format hf, and this asks for --format {self.kind}; give one of them")
        if self.dtype == QUANTIZED and self.kind != "gguf":
            raise UsageError(f"--dtype {QUANTIZED} is a precision of GGUF files: add --format gguf, or choose another one")
        if self.dtype is not None and self.kind == "adapter":
            raise UsageError("--dtype is for whole models: an adapter without its base keeps its own precision; leave it out")
        for option, name in (("--push", self.push), ("--base", self.base)):
            if name is not None and not HUB_NAME.fullmatch(name):
                raise UsageError(f"{option} {name}: must be OWNER/NAME, as in my-name/my-model")
        if self.public and self.push is None:
            raise UsageError("--public is for --push, and nothing is uploaded without it")
        if self.kind == "gguf" and find_spec("gguf") is None:
            raise UsageError(f"--format gguf needs the package gguf: {install_command('astuner-tools[gguf]')}")
        if self.push is not None and find_spec("huggingface_hub") is None:
            raise UsageError(
                "--push needs the package huggingface_hub, which comes with transformers: pip install huggingface_hub"
            )
