"""Compiles the kernels with the machine's own compiler, once per machine and version."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from astuner.shared.user_cache import keep_cached, read_cached

SOURCE = Path(__file__).with_name("kernels.c")
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
"""A product and a sum are fused where the source says so, everywhere alike: a row must get the same bits in any company."""
_TIMEOUT_S = 60.0
_KEPT_BYTES = 4 << 20


def build_kernels(*, bfloat16: bool, source: Path = SOURCE) -> bytes:
    """Return the compiled library for float32 or bfloat16, which is kept in the user's cache directory.

    Raises OSError with the reason if there is no compiler, or it fails.
    """
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise OSError(f"none of {', '.join(_COMPILERS)} is installed")
    command = [compiler, *_FLAGS, *(["-DBFLOAT16"] if bfloat16 else [])]
    parts = [source.read_bytes(), repr(command).encode(), _describe_processor()]
    name = hashlib.sha256(b"\0".join(parts)).hexdigest() + ".so"
    library = read_cached("kernels", name)
    if library is None:
        library = _compile(command, source)
        keep_cached("kernels", name, library, most_bytes=_KEPT_BYTES)
    return library


def _compile(command: list[str], source: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="astuner-") as folder:
        target = Path(folder) / "kernels.so"
        full = [*command, "-o", str(target), str(source), "-lm"]
        try:
            ran = subprocess.run(full, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise OSError(f"{command[0]} did not end within {_TIMEOUT_S:.0f} s") from None
        if ran.returncode:
            raise OSError(f"{command[0]} failed: {ran.stderr.strip()[:500] or f'exit code {ran.returncode}'}")
        return target.read_bytes()


def _describe_processor() -> bytes:
    """Return what decides which instructions may be used: a home directory may serve several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.release()}".encode()
    wanted = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)})).encode()
