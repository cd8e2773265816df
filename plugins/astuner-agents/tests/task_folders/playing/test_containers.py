"""What a task asks of a kind of sandbox that is made from images."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from astuner.contract.protocols import Sandboxes, SandboxSpec, SandboxTraits
from astuner_agents.task_folders.playing.errors import TaskNotPlayable
from astuner_agents.task_folders.playing.needs import plan_play
from astuner_agents.task_folders.reader import read_folder


class Containers(Sandboxes):
    """Opens none: only what it is asked for counts."""

    traits = SandboxTraits(
        separates_files=True, separates_network=True, honours=frozenset({"image", "user", "cpus", "memory_mb"})
    )

    async def open(self, spec: SandboxSpec) -> NoReturn:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def describe(folder: Path) -> SandboxSpec:
    return plan_play(read_folder(folder), Containers()).describe(SandboxSpec(episode_id="a"))


def test_the_image_and_the_limits_of_the_task_are_asked_for(tasks: Path) -> None:
    spec = describe(tasks / "fix-mean")
    assert (spec.image, spec.workdir, spec.memory_mb) == ("registry.example.com/acme/fix-mean:1", "/app", 1024)
    # Its files are in the image already.
    assert "/data" not in spec.directories
    assert describe(tasks / "hello-file").cpus == 1


def test_without_an_image_the_one_that_it_starts_from_is_asked_for_and_its_files_are_put_in(tasks: Path) -> None:
    play = plan_play(read_folder(tasks / "count-words"), Containers())
    assert (play.describe(SandboxSpec(episode_id="a")).image, play.has_image) == ("debian:bookworm-slim", False)
    assert list(play.recipe.files) == ["/app/text/poem.txt"]


def test_an_image_that_must_be_built_is_named_with_the_command(tasks: Path) -> None:
    file = tasks / "hello-file" / "environment" / "Dockerfile"
    file.write_text(f"{file.read_text()}RUN pip install numpy\n")
    with pytest.raises(TaskNotPlayable, match=rf"RUN pip install numpy\): docker build -t NAME {file.parent}, and name it in"):
        describe(tasks / "hello-file")


def test_a_ready_image_needs_no_build(tasks: Path) -> None:
    file = tasks / "fix-mean" / "environment" / "Dockerfile"
    file.write_text(f"{file.read_text()}RUN pip install numpy\n")
    assert (describe(tasks / "fix-mean").image, describe(tasks / "fix-mean").workdir) == (
        "registry.example.com/acme/fix-mean:1",
        "/app",
    )
    file.unlink()
    assert describe(tasks / "fix-mean").workdir is None


def test_tests_that_fetch_something_are_warned_of(tasks: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tasks / "hello-file" / "tests" / "test.sh").write_text("apt-get install -y curl\n")
    describe(tasks / "hello-file")
    assert "fetch something (apt-get), and programs in this kind of sandbox reach no network" in caplog.text
