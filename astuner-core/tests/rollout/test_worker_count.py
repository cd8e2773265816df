"""How many workers `auto` means."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.contract.protocols import Candidate
from astuner.episodes.rollout.worker_count import POOL, choose_count
from astuner.settings.config.model import Config, Gateway
from astuner.settings.config.rollout import Rollout
from astuner.settings.plugins.catalog import Catalog

OFFERED = Catalog(found=(Candidate(kind="function", name=POOL, target="acme:open_pool", dist="acme"),))


def choose(
    *, cores: int = 16, reachable: bool = True, port: int = 0, catalog: Catalog = OFFERED, **rollout: Any
) -> tuple[int, str]:
    config = Config(rollout=Rollout(**rollout), gateway=Gateway(port=port))
    found = choose_count(config, reachable=reachable, cores=cores, catalog=catalog)
    assert not found.lacking or found.count == 1
    return found.count, found.why


@pytest.mark.parametrize(
    ("options", "count", "why"),
    [
        ({}, 4, "16 cores, 128 concurrent episodes"),
        ({"cores": 4}, 2, "4 cores"),
        ({"max_env_worker": 4096, "cores": 128}, 16, "128 cores"),
        ({"cores": 2}, 1, "2 cores: more than one worker pays from 4 on"),
        ({"max_env_worker": 63}, 1, "one process is enough for fewer than 64"),
        ({"reachable": False}, 1, "every request goes through the run's own process"),
        ({"port": 8000}, 1, "gateway.port"),
        ({"players": 3, "cores": 1}, 3, "as configured"),
    ],
)
def test_auto_is_more_than_one_only_where_that_pays(options: dict[str, Any], count: int, why: str) -> None:
    found = choose(**options)
    assert found[0] == count
    assert why in found[1]


def test_auto_is_one_where_the_package_of_several_is_missing_and_says_so_where_several_would_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("astuner.episodes.rollout.worker_count.is_installed", lambda package: False)
    count, why = choose(catalog=Catalog())
    assert count == 1
    assert why.startswith("16 cores, 128 concurrent episodes: 4 rollout workers would pay; they come with astuner-")
    assert why.partition(", which is not installed: ")[2].startswith("pip install ")
    assert choose(catalog=Catalog(), cores=2) == choose(cores=2)
    assert choose(catalog=Catalog(), reachable=False) == choose(reachable=False)


@pytest.mark.parametrize("workers", [0, "many", -1])
def test_an_invalid_number_of_workers_is_refused(workers: Any) -> None:
    with pytest.raises(ValueError, match="'players' must be 'auto' or at least 1"):
        Rollout(players=workers)
