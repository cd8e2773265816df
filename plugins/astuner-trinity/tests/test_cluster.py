"""What a run makes of a cluster that is there."""

from __future__ import annotations

import pytest

from astuner.contract.errors import UsageError
from astuner.shared.processes.ports import LOOPBACK, free_port
from astuner_trinity import cluster
from astuner_trinity.cluster import adopt_cluster_gpus
from astuner_trinity.process_environment import Machine

HERE = Machine(gpus=0, flash_attention=True)


def test_one_that_does_not_answer_is_left_to_trinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER_S", 0.01)
    assert adopt_cluster_gpus(HERE, f"{LOOPBACK}:{free_port()}") == HERE


@pytest.mark.parametrize(("gpus", "nodes", "each"), [([8], 1, 8), ([0, 8, 4], 2, 4), ([1], 1, 1)])
def test_the_nodes_that_have_gpus_are_those_that_compute(
    monkeypatch: pytest.MonkeyPatch, gpus: list[int], nodes: int, each: int
) -> None:
    monkeypatch.setattr(cluster, "count_gpus", lambda address: gpus)
    assert adopt_cluster_gpus(HERE, "there:1") == Machine(gpus=each, nodes=nodes, flash_attention=True)


def test_a_cluster_without_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "count_gpus", lambda address: [0, 0])
    with pytest.raises(UsageError, match=r"there:1, and its 2 node\(s\) have no GPU"):
        adopt_cluster_gpus(HERE, "there:1")
