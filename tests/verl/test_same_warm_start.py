"""The same demonstrations give the same model, whether `local` trains it or verl, over Ray, with two workers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from ticket_project import write_ticket_project

from astuner_tools.demonstrations.report import WarmStartReport
from astuner_tools.demonstrations.request import WarmStartRequest
from astuner_tools.demonstrations.warm_start import warm_start

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed"),
    pytest.mark.xdist_group("same-warm-start"),
]

SETTINGS = (
    "task_reader.dataset_file.validation=null",
    # Two, so that what they average and the rows that pad their parts count too.
    "trainer_common.n_gpus_per_node=2",
    "trainer_common.optim.weight_decay=0.01",
    "trainer_common.grad_clip=0.5",
    # What only reinforcement learning knows.
    "rollout.temperature=0.7",
    "trainer_common.kl_loss_coef=0.1",
    "trainer_common.algorithm.use_kl_in_reward=true",
    "trainer_common.algorithm.rollout_is_threshold=2.0",
    "trainer_common.mini_batch_num=2",
)
EPOCHS = 4
LR = 4e-3
FILES = {"whole": "model.safetensors", "adapters": "adapter_model.safetensors"}
INVISIBLE = "k_proj.bias"
"""A softmax does not see what all keys have in common, so its gradient is rounding alone, of which AdamW makes full steps."""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WarmStartReport]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(tmp_path / "state"))
    conf = write_ticket_project(tmp_path)

    def run(backbone: str, out: str, *settings: str, tiny: bool = False) -> WarmStartReport:
        request = WarmStartRequest(
            conf=conf,
            demos=tmp_path / "demos.jsonl",
            out=tmp_path / out,
            overrides=(*SETTINGS, *settings),
            backbone=backbone,
            tiny=tiny,
            epochs=EPOCHS,
            # Batches of 6 rows, and of 7, which two workers cannot halve.
            batch_size=7,
            lr=LR,
        )
        return warm_start(request, print)

    return run


@pytest.mark.parametrize("kind", ["whole", pytest.param("adapters", marks=pytest.mark.slow)])
def test_losses_and_weights_are_equal(start: Callable[..., WarmStartReport], tmp_path: Path, kind: str) -> None:
    if kind == "whole":
        # Made for both by `local`: verl makes no tiny models.
        reports = [start(backbone, backbone, tiny=True) for backbone in ("local", "verl")]
    else:
        start("local", "model", tiny=True)
        reports = [start(backbone, backbone, "model.lora_rank=4") for backbone in ("local", "verl")]
    expected, found = (report.result for report in reports)
    assert found.steps == expected.steps == 12
    assert expected.before.keys() == {"trained", "held out"}
    for name in expected.before:
        assert found.before[name].loss == pytest.approx(expected.before[name].loss, abs=1e-5)
        assert found.before[name].accuracy == pytest.approx(expected.before[name].accuracy, abs=0.02)
        # Measured: 1e-7 of a loss of 0.3, which was 6.1 at the start.
        assert found.after[name].loss == pytest.approx(expected.after[name].loss, abs=1e-5)
        assert found.after[name].accuracy == pytest.approx(expected.after[name].accuracy, abs=0.02)
    assert expected.after["trained"].loss < expected.before["trained"].loss / (10 if kind == "whole" else 1.05)
    compare_weights(*(tmp_path / backbone / FILES[kind] for backbone in ("local", "verl")))


def compare_weights(expected: Path, found: Path) -> None:
    """Adam's steps are up to `LR` long, whatever the gradient, so its rounding counts where that is nearly 0.

    Measured after 12 steps: 2e-5 at most; 5e-2 is as far as a weight can have gone.
    """
    from safetensors.numpy import load_file

    wanted, trained = load_file(expected), load_file(found)
    assert trained.keys() == wanted.keys()
    differences = {name: float(abs(trained[name] - value).max()) for name, value in wanted.items() if INVISIBLE not in name}
    assert max(differences.values()) < LR / 20, differences
