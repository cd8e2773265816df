from __future__ import annotations

import subprocess
import sys

from astuner.shared.install_hints import install_command


def test_a_missing_library_is_answered_with_the_command_that_brings_it() -> None:
    code = """
import sys
sys.modules["datasets"] = None  # what an import finds where the package is not installed
from pathlib import Path
from astuner.contract.errors import PluginError
from astuner_readers.huggingface import HuggingFaceReader
try:
    HuggingFaceReader(HuggingFaceReader.Options(dataset_path="gsm8k"), Path())
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert install_command("astuner-readers[hf]") in shown


def test_importing_the_reader_does_not_import_the_library() -> None:
    code = "import sys, astuner_readers.huggingface; print([m for m in ('datasets', 'pyarrow', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
