"""The sandbox `bubblewrap`: Linux namespaces with a read-only system, private directories and no network but the gateway."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Container, Iterable
from pathlib import Path
from typing import ClassVar

from attrs import evolve, frozen

from astuner.contract.errors import PluginError
from astuner.contract.protocols import SandboxSpec, SandboxTraits
from astuner.settings.config.paths import resolve_path
from astuner_agents.sandboxes import ProcessOptions, ProcessSandboxes, Wrapping
from astuner_agents.sandboxes.supervisor import PROGRAM, find_interpreter

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt")
"""What is shown of the system."""
NOBODY = 65534
HOME = "/home/agent"
WORK, OTHER_WORK = "/work", "/workdir"
"""The working directory, and the one where something of the machine is shown below the first."""
KEPT = ("SETUID", "SETGID", "KILL", "DAC_OVERRIDE", "FOWNER")
"""The capabilities of the supervisor, for a run as root; its commands have none."""


@frozen(kw_only=True)
class BubblewrapOptions(ProcessOptions):
    """Limits of each sandbox, and what is shown in it."""

    program: str = "bwrap"
    """The program of bubblewrap."""
    read_only: tuple[str, ...] = ()
    """More directories and files that programs may read, as they are outside; relative to the YAML."""
    uid: int = NOBODY
    """The user and group that programs run as if the run's user is root; otherwise they run as that user."""


class BubblewrapSandboxes(ProcessSandboxes):
    """Programs see the system and the installed Python, read-only, and their own files; they reach nothing but the gateway."""

    Options: ClassVar[type[BubblewrapOptions]] = BubblewrapOptions
    traits = SandboxTraits(separates_files=True, separates_network=True, honours=frozenset({"workdir", "directories"}))
    _options: BubblewrapOptions

    def check(self) -> None:
        """Run `true` in a sandbox."""
        import subprocess

        if sys.platform != "linux":
            raise PluginError("the sandbox 'bubblewrap' needs Linux; choose another one in astuner.sandbox.type")
        if shutil.which(self._options.program) is None:
            raise PluginError(
                f"the sandbox 'bubblewrap' needs the program {self._options.program}, which is not on the PATH: "
                "apt-get install bubblewrap, or the package of this name of your distribution"
            )
        words = [*self._list_words(), "--ro-bind", "/", "/", "--", "/bin/true"]
        tried = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=60)
        if tried.returncode:
            raise PluginError(
                f"the sandbox 'bubblewrap' cannot be used on this machine: {tried.stderr.strip() or tried.returncode}. It needs "
                "user namespaces (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the "
                "options of the container); choose another one in astuner.sandbox.type otherwise"
            )

    def find_program(self, name: str) -> bool | None:
        """Whether it is on the `PATH`, and shown."""
        if "/" in name:
            return None
        shown = self._list_shown()
        folders = [folder for folder in self.path.split(os.pathsep) if _is_below(folder, shown)]
        found = shutil.which(name, path=os.pathsep.join(folders))
        return found is not None and _is_below(os.path.realpath(found), shown)

    def suggest_program(self, name: str) -> str | None:
        """Name the option that shows it, if it is installed."""
        here = shutil.which(name)
        if here is None:
            return None
        return (
            f"{here} is not shown in the sandbox 'bubblewrap': name its directory, and that of what it needs, in "
            "astuner.sandbox.bubblewrap.read_only"
        )

    def wrap(self, directory: Path) -> Wrapping:
        """Put the supervisor into namespaces; its directories are /work, /home/agent and /tmp."""
        programs = str(PROGRAM.parent)
        shown = self._list_shown()
        work = OTHER_WORK if any(_is_below(one, (WORK,)) for one in (*shown, programs)) else WORK
        own = {work: "work", HOME: "home", "/tmp": "tmp"}
        words = self._list_words()
        words += _make_parents([HOME], own)
        for inside, name in own.items():
            words += ["--bind", str(directory / name), inside]
        words += _make_parents([*shown, programs], own)
        for path in shown:
            words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]
        words += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(64 * 1024**2), "--tmpfs", "/dev/shm"]
        words += ["--ro-bind", programs, programs, "--as-pid-1", "--"]
        is_root = os.geteuid() == 0
        return Wrapping(
            command=tuple(words),
            workdir=work,
            home=HOME,
            tmp="/tmp",
            # Nothing is removed through a directory in which something of the machine is shown.
            remove=tuple(path for path in own if not any(_is_below(one, (path,)) for one in (*shown, programs))),
            uid=self._options.uid if is_root else None,
            is_relayed=True,
        )

    def place_directories(self, wrapping: Wrapping, directory: Path, spec: SandboxSpec) -> Wrapping:
        """Bind the directories of a spec; raises `ValueError` for one that is inside what is shown of the machine."""
        workdir = spec.workdir or wrapping.workdir
        folders = {path: f"root/{number}" for number, path in enumerate(spec.directories)}
        places = {workdir: "work", **folders}
        for path in places:
            self._check_place(path)
        words = [*wrapping.command[:-1], *_make_parents([*places], (wrapping.workdir, HOME, "/tmp"))]
        for inside, name in places.items():
            words += ["--bind", str(directory / name), inside]
        return evolve(
            wrapping,
            command=(*words, "--"),
            workdir=workdir,
            folders=tuple(folders.values()),
            remove=(*wrapping.remove, *folders),
        )

    def _check_place(self, path: str) -> None:
        taken = (*self._list_shown(), str(PROGRAM.parent), "/proc", "/dev", HOME, "/tmp")
        clash = next((one for one in taken if _is_below(path, (one,)) or _is_below(one, (path,))), None)
        if not path.startswith("/") or path == "/" or clash:
            raise ValueError(f"the sandbox 'bubblewrap' cannot show a separate directory at {path}: {clash or 'it'} is taken")

    def _list_words(self) -> list[str]:
        words = [shutil.which(self._options.program) or self._options.program]
        words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        words += ["--hostname", "sandbox", "--cap-drop", "ALL"]
        if os.geteuid() == 0:
            for name in KEPT:
                words += ["--cap-add", f"CAP_{name}"]
        else:
            words += ["--unshare-user"]
        return words

    def _list_shown(self) -> list[str]:
        own = [sys.prefix, sys.base_prefix, str(Path(find_interpreter()).parents[1])]
        more = [str(resolve_path(path, self._config_dir)) for path in self._options.read_only]
        found = [path for path in dict.fromkeys((*own, *more)) if not _is_below(path, SYSTEM)]
        return [path for path in SYSTEM if os.path.lexists(path)] + found


def _make_parents(paths: Iterable[str], own: Container[str]) -> list[str]:
    """Return the words that make the directories around paths; those that bwrap makes itself are for one user alone."""
    parents = sorted({str(parent) for path in paths for parent in Path(path).parents})
    made = [parent for parent in parents if parent != "/" and parent not in own and not _is_below(parent, SYSTEM)]
    return [word for parent in made for word in ("--perms", "0755", "--dir", parent)]


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in directories)
