"""Keys of the kernel, which have no namespace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NOT_HERE = 77
"""The exit code where bubblewrap cannot be used, or the kernel answers no questions about keyrings."""
SHOW = """
import ctypes, os
ask = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
libc = ctypes.CDLL(None)
print(libc.syscall(ask, 0, -3, 0))  # KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING
"""
LOOK = f"""
import asyncio, sys
from astuner.contract.errors import PluginError
from astuner.contract.protocols import SandboxSpec
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes

async def look():
    session = await sandboxes.open(SandboxSpec(episode_id="a"))
    print((await session.run(["python3", "-c", {SHOW!r}])).stdout)
    await session.close()
    await sandboxes.close()

sandboxes = BubblewrapSandboxes(BubblewrapSandboxes.Options(directory=sys.argv[1], warm=0))
try:
    sandboxes.check()
except PluginError:
    sys.exit({NOT_HERE})
{SHOW}
asyncio.run(look())
"""
LOGIN = f"""{SHOW.replace("print", "")}
import sys
# As a login does: processes that start from here share a keyring. KEYCTL_JOIN_SESSION_KEYRING
if libc.syscall(ask, 1, None) < 0:
    sys.exit({NOT_HERE})
os.execv(sys.executable, [sys.executable, "-c", {LOOK!r}, sys.argv[1]])
"""


def test_a_command_has_not_the_keyring_of_the_run(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", LOGIN, str(tmp_path)], capture_output=True, text=True, check=False)
    if ended.returncode == NOT_HERE:
        pytest.skip("bubblewrap or keyrings cannot be used here")
    assert ended.returncode == 0, ended.stderr
    ours, theirs = (int(one) for one in ended.stdout.split())
    assert theirs > 0
    assert theirs != ours
