"""Runs Python in a process that a `python_server` forks, for a shell: `python python_client.py SOCKET -m MODULE …`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from python_server import PythonServer

if __name__ == "__main__":
    output = (sys.stdout.buffer, sys.stderr.buffer)
    code = PythonServer(sys.argv[1]).start(sys.argv[2:], cwd=Path.cwd(), env=os.environ, output=output).wait()
    sys.exit(code if code >= 0 else 128 - code)
