"""Workers over the nodes of a Ray cluster: a node may go."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.schema import Episode, Notice
from astuner.runs.store.codec import dump_episode
from astuner_devkit import PlayedRun
from astuner_devkit.recorder import read_records

pytestmark = pytest.mark.slow
cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three nodes on this machine."""
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    made.shutdown()


def read_ids(directory: Path) -> Counter[str]:
    file = directory / "episodes" / "train.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return Counter(record["episode"]["id"] for record in records if record["kind"] == "episode")


def has_lost_a_worker(directory: Path) -> bool:
    return any("has ended (on the node" in one.text for one in read_records(directory) if isinstance(one, Notice))


def describe_samples(episode: Episode) -> Any:
    return episode.id, dump_episode(episode)["samples"], episode.reward, episode.failures


def test_a_node_that_ends_loses_nothing(cluster: Any, world: Callable[..., PlayedRun], tmp_path: Path) -> None:
    directory = tmp_path / "launcher_record" / "run1.debug"

    def end_a_node() -> None:
        until = time.monotonic() + 300
        # The other tasks wait for the file, and each worker has one of them.
        while sum(read_ids(directory).values()) < 9 and time.monotonic() < until:
            time.sleep(0.1)
        cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
        while not has_lost_a_worker(directory) and time.monotonic() < until:
            time.sleep(0.1)
        (tmp_path / "go").touch()

    ending = threading.Thread(target=end_a_node)
    ending.start()
    several = world(3, "Gated")
    ending.join()
    alone = world(1, "Gated")
    assert list(map(describe_samples, several.episodes)) == list(map(describe_samples, alone.episodes))
    ids = read_ids(several.directory)
    assert (len(ids), max(ids.values())) == (18, 1)
    assert has_lost_a_worker(several.directory)
