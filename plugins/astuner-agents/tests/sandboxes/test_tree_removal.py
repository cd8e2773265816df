"""What a program leaves in its directories is removed, however it left it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from astuner.contract.protocols import SandboxSpec
from astuner_agents.sandboxes.file_transfer import UNCOUNTABLE, measure
from astuner_agents.sandboxes.local import LocalSandboxes
from astuner_agents.sandboxes.tree_removal import remove_tree

GO_DEEP = "import os\nfor _ in range(1200):\n    os.mkdir('deep')\n    os.chdir('deep')\nopen('leaf', 'w').close()"
"""Deeper than Python recurses and than a path may be long."""


@pytest.fixture(autouse=True)
def _nothing_is_left_that_pytest_cannot_remove(tmp_path: Path) -> Iterator[None]:
    yield
    subprocess.run(["rm", "-rf", tmp_path], check=True)


def go_deep(directory: Path) -> None:
    subprocess.run([sys.executable, "-c", GO_DEEP], cwd=directory, check=True)


def test_directories_of_any_depth_are_removed(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    go_deep(top)
    remove_tree(top)
    assert os.listdir(tmp_path) == []


def test_files_cannot_be_hidden_in_deep_directories_from_the_limit_on_disk(tmp_path):
    assert measure(tmp_path) == 0
    go_deep(tmp_path)
    assert measure(tmp_path) == UNCOUNTABLE


def test_what_its_owner_has_locked_is_removed(tmp_path):
    inner = tmp_path / "top/a/b/c"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for place in (inner, inner.parent, inner.parent.parent):
        place.chmod(0)
    remove_tree(tmp_path / "top")
    assert os.listdir(tmp_path) == []


def test_links_are_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (tmp_path / "top/in").mkdir(parents=True)
    (tmp_path / "top/link").symlink_to(kept)
    (tmp_path / "top/in/link").symlink_to(kept)
    (tmp_path / "top/in/none").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "top/in/pipe")
    remove_tree(tmp_path / "top")
    assert os.listdir(tmp_path) == ["kept"]
    assert (kept / "file").read_text() == "x"


def test_a_directory_that_does_not_exist_is_no_error(tmp_path):
    remove_tree(tmp_path / "missing")


@pytest.mark.asyncio
async def test_a_sandbox_with_deep_directories_closes_and_leaves_nothing(tmp_path):
    sandboxes = LocalSandboxes(LocalSandboxes.Options(directory=str(tmp_path / "boxes"), warm=0))
    session = await sandboxes.open(SandboxSpec(episode_id="train/1/task/0", gateway_url=None))
    await session.run([sys.executable, "-c", GO_DEEP], timeout_s=60)
    await session.close()
    await sandboxes.close()
    assert os.listdir(tmp_path / "boxes") == []


@pytest.mark.asyncio
async def test_deep_directories_of_a_killed_run_do_not_keep_the_next_one_from_starting(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"astuner-sandbox-{ended.pid}-left/1/work"
    left.mkdir(parents=True)
    go_deep(left)
    sandboxes = LocalSandboxes(LocalSandboxes.Options(directory=str(tmp_path), warm=0))
    session = await sandboxes.open(SandboxSpec(episode_id="train/1/task/0", gateway_url=None))
    await session.close()
    await sandboxes.close()
    assert os.listdir(tmp_path) == []
