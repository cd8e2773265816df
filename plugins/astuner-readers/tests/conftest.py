"""Keeps the library `datasets` off the network and its cache out of the home directory; it reads both when it is imported."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="astuner-readers-")
atexit.register(shutil.rmtree, os.environ["HF_HOME"], ignore_errors=True)
