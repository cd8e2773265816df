from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("astuner.settings.config.model", ["yaml", "omegaconf", "numpy", "cattrs"]),
        ("astuner.settings.planning.key_coverage", ["omegaconf", "numpy", "torch", "rich"]),
    ],
)
def test_module_imports_light(module: str, heavy: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
