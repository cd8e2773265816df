"""What is loaded in every verl of the machine does nothing outside of our runs; the backbone imports light."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY = ("torch", "ray", "verl", "transformers", "vllm", "hydra")


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_the_backbone_imports_nothing_heavy() -> None:
    code = f"import sys, astuner_verl.backbone; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code).stdout.strip() == "[]"


def test_outside_of_a_run_nothing_is_registered() -> None:
    code = "import sys, astuner_verl.verl_plugin; print([name for name in sys.modules if name.startswith('astuner_verl.')])"
    assert python(code).stdout.strip() == "['astuner_verl.process_environment', 'astuner_verl.verl_plugin']"


def test_what_fails_in_a_run_ends_the_process_with_its_reason() -> None:
    code = "import sys; sys.modules['astuner_verl.transformers_rollout'] = None; import astuner_verl.verl_plugin"
    ended = python(code, ASTUNER_VERL_RUN="cpu")
    assert (ended.returncode, "astuner-verl cannot register with verl" in ended.stderr) == (1, True)
