"""What a sandbox costs: CPU time and wall time of many at once, each opened, used for one command, and closed."""

from __future__ import annotations

import asyncio
import resource
import time

import click
import psutil

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Sandboxes, SandboxSpec
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes
from astuner_agents.sandboxes.local import LocalSandboxes

COMMAND = ["/bin/sh", "-c", "(setsid sleep 1000 &); sleep 1000 & exit 0"]
"""Leaves two processes behind, which the sandbox has to end."""


@click.command()
@click.option("--count", default=50, show_default=True, help="Sandboxes at the same time.")
@click.option("--warm", default=8, show_default=True, help="Of them started ahead.")
@click.option("--image", help="Measure the sandbox `docker` too, with this image; the daemon's own CPU time is not counted.")
def main(count: int, warm: int, image: str | None) -> None:
    """Print a row for each kind."""
    print("sandbox       CPU ms each   of which this process   wall s   left")
    for make in (_make_local, _make_bubblewrap, _make_docker):
        if make is _make_docker and image is None:
            continue
        try:
            asyncio.run(_measure(make(warm, count, image), count))
        except PluginError as error:
            print(error)


def _make_local(warm: int, _: int, __: str | None) -> Sandboxes:
    return LocalSandboxes(LocalSandboxes.Options(warm=warm))


def _make_bubblewrap(warm: int, _: int, __: str | None) -> Sandboxes:
    return BubblewrapSandboxes(BubblewrapSandboxes.Options(warm=warm))


def _make_docker(warm: int, count: int, image: str | None) -> Sandboxes:
    from astuner_agents.docker import DockerOptions, DockerSandboxes

    return DockerSandboxes(DockerOptions(image=image, warm=warm, max_sessions=count))


async def _measure(sandboxes: Sandboxes, count: int) -> None:
    sandboxes.check()
    await _use(sandboxes)
    before, began = _read_cpu(), time.perf_counter()
    await asyncio.gather(*(_use(sandboxes) for _ in range(count)))
    wall = time.perf_counter() - began
    await sandboxes.close()
    own, children = (1000 * (now - then) / count for now, then in zip(_read_cpu(), before, strict=True))
    left = len(psutil.Process().children(recursive=True))
    print(f"{type(sandboxes).__name__:20} {own + children:6.1f} {own:20.1f} {wall:14.2f} {left:6}")


async def _use(sandboxes: Sandboxes) -> None:
    session = await sandboxes.open(SandboxSpec(episode_id="benchmark", gateway_url="http://127.0.0.1:9/v1"))
    try:
        result = await session.run(COMMAND)
        assert result.exit_code == 0, result
    finally:
        await session.close()


def _read_cpu() -> tuple[float, float]:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (usage.ru_utime + usage.ru_stime for usage in usages)
    return own, children


if __name__ == "__main__":
    main()
