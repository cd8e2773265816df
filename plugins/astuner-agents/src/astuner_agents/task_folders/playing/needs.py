"""From a task folder and the kind of sandbox to how the task is played in it, or why it cannot be."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from logging import getLogger
from pathlib import Path

from attrs import evolve, frozen

from astuner.contract.errors import DataError
from astuner.contract.protocols import Sandboxes, SandboxSession, SandboxSpec, SandboxTraits, read_traits
from astuner_agents.task_folders.folder import TaskFolder
from astuner_agents.task_folders.playing.dockerfile import ImageRecipe, read_dockerfile
from astuner_agents.task_folders.playing.errors import TaskNotPlayable
from astuner_agents.task_folders.playing.places import Places, move_places

ROOTS = {"harbor": ("/tests", "/logs", "/solution"), "terminal-bench": ("/tests", "/logs", "/oracle")}
"""The directories that each format names; Terminal-Bench has its solutions in the last one."""
SYSTEM = (
    "/bin",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/mnt",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
)
"""Directories of the system: a working directory below one of them is owned alone."""
MAKE_S = 60.0
WORKDIR = "/app"
"""Where commands start if nothing else is said."""
DOWNLOADS = re.compile(
    r"\b(?:apt-get|apt|apk|curl|wget|uvx|npx|git clone|uv (?:add|pip|tool)|pip3? install|npm (?:i|ci|install))\b"
)
log = getLogger(__name__)


@frozen(kw_only=True)
class Play:
    """How a task is played in the sandboxes of a run."""

    folder: TaskFolder
    sandboxes: Sandboxes | type[Sandboxes]
    recipe: ImageRecipe
    has_image: bool
    """Whether the sandbox is made from the image of the task, with the files that it holds."""

    @property
    def root(self) -> Path:
        """The folder of the task."""
        return Path(self.folder.directory)

    @property
    def workdir(self) -> str | None:
        """Where commands start, by the task's paths; None leaves it to the image."""
        stated = self.folder.workdir or self.recipe.workdir
        return stated or (None if self.folder.docker_image and self.has_image else WORKDIR)

    @property
    def env(self) -> Mapping[str, str]:
        """The variables of all commands; raises `TaskNotPlayable` for one of this machine that is not set."""
        image = {} if self.has_image else self.recipe.env
        return {**image, **resolve_variables(self.folder.environment)}

    @property
    def base(self) -> str:
        """The directory that becomes the working directory of the sandbox: the outermost one around `workdir` that it may own."""
        workdir = self.workdir or WORKDIR
        top = "/".join(workdir.split("/")[:2])
        return workdir if top in SYSTEM else top

    def describe(self, spec: SandboxSpec) -> SandboxSpec:
        """Return what the task needs of its sandbox."""
        folder = self.folder
        honoured = read_traits(self.sandboxes, SandboxTraits).honours
        return evolve(
            spec,
            image=(folder.docker_image or self.recipe.base) if "image" in honoured else None,
            workdir=self.base if self.workdir else None,
            directories=self._list_directories(),
            user=folder.user,
            cpus=folder.cpus,
            memory_mb=folder.memory_mb,
        )

    async def prepare(self, session: SandboxSession) -> Places:
        """Put into a sandbox what the image of the task would hold; return where its directories are."""
        if read_traits(self.sandboxes, SandboxTraits).honours & {"image", "directories"}:
            places = Places()
        else:
            places = move_places(session, self.base, self._list_directories())
        if not self.has_image:
            await places.put(session, self.recipe.files)
        made = await session.run(["mkdir", "-p", places.find(self.workdir or WORKDIR)], timeout_s=MAKE_S)
        if made.exit_code and self.workdir:
            raise TaskNotPlayable(f"the sandbox cannot have a directory {self.workdir}: {made.stderr.strip()}")
        return places

    def _list_directories(self) -> tuple[str, ...]:
        """Return the directories outside of the working directory that the format names, or in which the image has files."""
        files = {} if self.has_image else self.recipe.files
        found = [*ROOTS[self.folder.format], *("/".join(path.split("/")[:2]) for path in files)]
        return tuple(path for path in dict.fromkeys(found) if path != self.base)


def plan_play(folder: TaskFolder, sandboxes: Sandboxes | type[Sandboxes]) -> Play:
    """Return how a task is played; raises `TaskNotPlayable` with the remedy. What has no effect is warned of once."""
    root = Path(folder.directory)
    try:
        recipe = read_dockerfile(root / folder.dockerfile) if folder.dockerfile else ImageRecipe()
    except DataError as error:
        raise TaskNotPlayable(str(error)) from error
    if folder.verifier_mode == "separate":
        raise TaskNotPlayable(_refuse(folder, "its tests run in a separate container, which is not supported"))
    if len(folder.services) > 1:
        raise TaskNotPlayable(_refuse(folder, f"it needs several containers: {', '.join(folder.services)}"))
    takes_images = "image" in read_traits(sandboxes, SandboxTraits).honours
    has_image = takes_images and folder.docker_image is not None
    if not has_image:
        _check_recipe(folder, recipe, takes_images)
    play = Play(folder=folder, sandboxes=sandboxes, recipe=recipe, has_image=has_image)
    if not takes_images and play.workdir == "/":
        raise TaskNotPlayable(
            _refuse(folder, "its commands start in /, which only a container has: choose docker in astuner.sandbox.type")
        )
    _warn(folder, sandboxes)
    return play


def resolve_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables with those of this machine in place of `${NAME}` and `${NAME:-default}`."""
    found = {}
    for name, text in variables.items():
        match = re.fullmatch(r"\$\{([^}:]+)(?::-(.*))?\}", text, re.DOTALL)
        if match is None:
            found[name] = text
            continue
        value = os.environ.get(match[1], match[2])
        if value is None:
            raise TaskNotPlayable(f"it needs the environment variable {match[1]} (as {name}): set it")
        found[name] = value
    return found


def check_variables(folder: TaskFolder) -> None:
    """Raise `TaskNotPlayable` for a variable of this machine that the task needs and that is not set."""
    try:
        resolve_variables({**folder.environment, **folder.verifier_environment})
    except TaskNotPlayable as error:
        raise TaskNotPlayable(_refuse(folder, str(error))) from None


def _check_recipe(folder: TaskFolder, recipe: ImageRecipe, takes_images: bool) -> None:
    """Raise if only an image has what the task needs, and there is none."""
    if recipe.needs_build is None and (folder.dockerfile or not folder.docker_image):
        return
    if takes_images:
        context = Path(folder.directory, folder.dockerfile or "").parent
        where = "environment.docker_image of its task.toml" if folder.format == "harbor" else "a task.toml of Harbor's format"
        reason = f"its image must be built ({folder.dockerfile}, {recipe.needs_build})"
        remedy = f"docker build -t NAME {context}, and name it in {where}"
        raise TaskNotPlayable(_refuse(folder, f"{reason}: {remedy}"))
    why = f"{folder.dockerfile}, {recipe.needs_build}" if recipe.needs_build else folder.docker_image
    raise TaskNotPlayable(_refuse(folder, f"it needs its image ({why}): choose docker in astuner.sandbox.type"))


def _refuse(folder: TaskFolder, reason: str) -> str:
    return f"{folder.directory}: {reason}; or leave the task out with `exclude`"


def _warn(folder: TaskFolder, sandboxes: Sandboxes | type[Sandboxes]) -> None:
    wanted = {"user": folder.user, "cpus": folder.cpus, "memory_mb": folder.memory_mb}
    traits = read_traits(sandboxes, SandboxTraits)
    unmet = [name for name, value in wanted.items() if value is not None and name not in traits.honours]
    if unmet:
        warn_once(f"tasks set {', '.join(unmet)}, which this kind of sandbox does not act on")
    if folder.unplayed:
        warn_once(f"tasks set {', '.join(folder.unplayed)}, which has no effect here")
    if folder.verifier_user not in (None, folder.user):
        warn_once("tasks set verifier.user, which has no effect: the tests run as the user of the agent")
    if folder.network != "public" and not traits.separates_network:
        warn_once("tasks ask for no network or for some hosts only, and this kind of sandbox gives all of it")
    if traits.separates_network and (found := _find_download(Path(folder.directory, folder.test_script))):
        warn_once(
            f"the tests of {folder.directory} fetch something ({found}), and programs in this kind of sandbox reach no "
            "network: they fail unless it is there already"
        )


@cache
def warn_once(text: str) -> None:
    """Log a warning, the first time."""
    log.warning("%s", text)


@cache
def _find_download(script: Path) -> str | None:
    match = DOWNLOADS.search(script.read_text(encoding="utf-8", errors="replace"))
    return None if match is None else match[0]
