"""A machine of one's own for a logger: an empty home, an empty place for temporary files, and a network that ends at loopback."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import define, evolve

from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Call, Episode, Group, Split, Task, Unjudged, Verdict, WorkflowOutput
from astuner.settings.config.model import Config
from astuner_devkit.run_infos import run_info

SECRET = "secret-of-the-agent-7"

GUARD = """
import socket
def guarded(connect):
    def only_loopback(self, address):
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            with open({log!r}, "a") as log:
                print(address, file=log)
            raise OSError("the network is blocked")
        return connect(self, address)
    return only_loopback
socket.socket.connect, socket.socket.connect_ex = guarded(socket.socket.connect), guarded(socket.socket.connect_ex)
look_up = socket.getaddrinfo
def asked(host, *rest, **more):
    if host not in (None, "", "127.0.0.1", "::1", "localhost"):
        with open({log!r}, "a") as log:
            print(host, file=log)
        raise socket.gaierror("the network is blocked")
    return look_up(host, *rest, **more)
socket.getaddrinfo = asked
"""
"""What a Python process imports at its start; wandb-core, which is none, is pointed at a proxy that counts."""


@define
class Machine:
    """What a logger finds, and what it leaves."""

    home: Path
    temporary: Path
    elsewhere: Path
    """The working directory of the run."""
    blocked: Path
    proxied: list[bytes]

    @property
    def reached_for(self) -> list[str]:
        """Every address outside that was asked for."""
        told = self.blocked.read_text().splitlines() if self.blocked.exists() else []
        return [*told, *map(repr, self.proxied)]

    @property
    def littered(self) -> list[Path]:
        """Every file outside of the run directory."""
        return [path for place in (self.home, self.temporary, self.elsewhere) for path in place.rglob("*") if path.is_file()]


KEYS = {
    "HF_TOKEN": "hf_aaaaaaaaaaaaaaaaaaaaaaaa",
    "MLFLOW_TRACKING_URI": "http://mlflow.example",
    "SWANLAB_API_KEY": "a-key",
    "TRACKIO_SPACE_ID": "somebody/board",
    "WANDB_API_KEY": "0" * 40,
}
"""With these the libraries would write to their services; a logger that is told to stay offline does all the same."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    base = tmp_path_factory.mktemp("machine")
    made = Machine(*(base / name for name in ("home", "temporary", "elsewhere", "blocked")), proxied=[])
    site = base / "site"
    for place in (made.home, made.temporary, made.elsewhere, site):
        place.mkdir()
    (site / "sitecustomize.py").write_text(GUARD.format(log=str(made.blocked)))
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_count, args=(listener, made.proxied), daemon=True).start()
    proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    inherited = os.environ.get("PYTHONPATH")
    variables = {
        "HOME": str(made.home),
        "TMPDIR": str(made.temporary),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), inherited])),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), proxy),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        **KEYS,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("XDG_", "WANDB_", "SWANLAB_", "TRACKIO_", "MLFLOW_"))]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(made.elsewhere)
        yield made
    # A thread that waits for a connection is woken by shutting the socket down, and not by closing it.
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> RunInfo:
    """A run whose configuration has a secret, under a key that says so and under one that does not, and a very short one."""
    config = Config()
    extension = {"mine": {"api_key": SECRET, "greeting": f"I am {SECRET}", "password": "abc"}}
    config = evolve(config, plugins=evolve(config.plugins, options=extension))
    return run_info(tmp_path_factory.mktemp("home_of_the_yaml"), config=config)


@pytest.fixture(scope="session")
def secrets_in() -> Callable[[Path], list[str]]:
    """Name the files that have the secret in them."""
    return lambda place: [str(path) for path in place.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.fixture(scope="session")
def group() -> Callable[..., Group]:
    """Make the group of these rewards: `group([0.0, 1.0], split="validation")`; None is an episode that was not judged."""

    def made(rewards: Sequence[float | None], split: Split = "train", said: str = "answer") -> Group:
        episodes = tuple(_episode(number, reward, split, said) for number, reward in enumerate(rewards))
        return Group(task=Task("2 + 2?"), step=1, split=split, episodes=episodes)

    return made


def _episode(number: int, reward: float | None, split: Split, said: str) -> Episode:
    call = Call(
        index=0,
        agent="agent",
        target_tag="agent",
        parent=None,
        kept=0,
        prompt_ids=np.array([1], np.int32),
        output_ids=np.array([2], np.int32),
        logprobs=np.array([-1.0], np.float32),
        finish_reason="stop",
        messages=({"role": "user", "content": f"2 + 2? I am {SECRET}"},),
        reply={"role": "assistant", "content": f"{said} *{number}*"},
    )
    return Episode(
        id=f"e{number}",
        task=Task("2 + 2?"),
        step=1,
        repeat=number,
        split=split,
        output=WorkflowOutput(),
        calls=(call,),
        verdict=Unjudged(reason="judge_error") if reward is None else Verdict(reward),
    )


@pytest.fixture(scope="session")
def empty_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables: making them takes longer than all else, above all where each goes to the disk at once."""
    import sqlalchemy
    from mlflow import MlflowClient

    def hurry(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", hurry)
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    sqlalchemy.event.remove(sqlalchemy.engine.Engine, "connect", hurry)
    return path


def _count(listener: socket.socket, received: list[bytes]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.settimeout(5)
                received.append(connection.recv(4096))


@pytest.fixture(scope="module")
def written(info: RunInfo, group: Callable[..., Group], machine: Machine) -> Callable[..., Path]:
    """Write a short run with a logger, cut it off, and go on with it from its first step; returns the run directory.

    Steps 1 to 3 are written, then 2 and 3 once more with other numbers, and 4. The written run is shared by a module.
    """

    def write(logger: Any, **options: Any) -> Path:
        def make() -> Any:
            return logger.from_run(logger.Options(timeout_s=600.0, **options), info)

        first = make()
        first.astuner_run_started()
        first.log(0, {"val/reward/mean": 0.25, "val/pass@4": 0.5, "val/episodes": 8.0})
        for step in (1, 2, 3):
            first.log(step, {"reward/mean": step / 10, "loss/größe": float("nan")})
        first.log_episodes(1, [group([0.5, 1.0, None, 0.0])])
        first.log_episodes(0, [group([1.0], "validation")])
        first.astuner_run_finished(exit_code=130)
        first.close()
        second = make()
        second.truncate_after(1)
        second.astuner_run_started()
        for step in (2, 3, 4):
            second.log(step, {"reward/mean": 1 + step / 10})
        second.log_episodes(4, [group([0.0])])
        second.astuner_run_finished(exit_code=0)
        second.close()
        return info.directory

    return write
