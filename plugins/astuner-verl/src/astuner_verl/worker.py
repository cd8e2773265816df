"""verl's worker with additions for our runs. Lives in Ray's processes, one per GPU."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from torch import Tensor
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.fsdp_utils import collect_lora_params
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from astuner_verl.first_choices import choose_first
from astuner_verl.loss import compute_weighed_loss
from astuner_verl.packed_loss import PackedLoss
from astuner_verl.rows import SCORER
from astuner_verl.shared_prefixes.engine import SharedPrefixEngine
from astuner_verl.token_record import PassRecord, TokenRecord


# verl finds the common base class of its colocated workers by the name "Worker", so none of our classes may have that name.
class PacedActor(ActorRolloutRefWorker):
    """Trains at the given rate, with the loss of the other backbones, and writes models for other tools."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """Build models and engines as verl does, and count the weights that go to the engines."""
        torch.manual_seed(self.config.actor.fsdp_config.seed)  # new adapters are drawn at random
        super().init_model()
        self._scorers: dict[str, TrainingWorker] = {}
        self._sent_bytes = 0
        if "actor" in self.role:
            collect = self.actor.engine.get_per_tensor_param

            def collect_and_count(*args: Any, **kwargs: Any) -> tuple[Iterator[tuple[str, Tensor]], Any]:
                weights, adapter = collect(*args, **kwargs)
                return self._count(weights), adapter

            self.actor.engine.get_per_tensor_param = collect_and_count

    def _count(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        for name, value in weights:
            self._sent_bytes += value.numel() * value.element_size()
            yield name, value

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def take_sent_bytes(self) -> int:
        """Return the bytes of the weights that went to an engine since the last call."""
        taken, self._sent_bytes = self._sent_bytes, 0
        return taken

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_learning_rate(self, rate: float) -> None:
        """Use a rate in the next updates, regardless of verl's schedule."""
        for group in self.actor.engine.optimizer.param_groups:
            group["lr"] = rate

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_weighed_loss(self, loss: PackedLoss, records: bool = False) -> None:
        """Train with the loss whose factors come with the rows; `records` keeps the values of trained tokens."""
        self._tokens = TokenRecord() if records else None
        self.actor.set_loss_fn(partial(compute_weighed_loss, loss.unpack(), record=self._tokens))

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def take_token_records(self) -> list[PassRecord]:
        """Return the values of the tokens that were trained since the last call."""
        return [] if self._tokens is None else self._tokens.take()

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def choose_first(self, data: TensorDict) -> TensorDict | None:
        """Return the log-probabilities of all tokens, and the model's first choices in their places."""
        loss, self.actor.loss_fn = self.actor.loss_fn, choose_first
        try:
            output = self.actor.infer_batch(data)
        finally:
            self.actor.loss_fn = loss
        return output.cpu() if output is not None else None

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def add_scorer(self, path: str) -> None:
        """Load a whole model that scores tokens, with the settings of the reference; between passes the CPU's memory holds it."""
        like = (self.ref or self.actor).config
        own = {"path": path, "lora_rank": 0, **dict.fromkeys(("lora_adapter_path", "tokenizer_path", "hf_config_path"))}
        config = TrainingWorkerConfig(
            model_type="language_model",
            model_config=omega_conf_to_dataclass(OmegaConf.merge(self.config.model, own)),
            engine_config=replace(deepcopy(like.engine_config), forward_only=True),
            optimizer_config=like.optimizer_config,
            checkpoint_config=like.checkpoint_config,
        )
        self._scorers[path] = self.ref_worker_cls(config=config)
        self._scorers[path].reset()

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def score_with(self, data: TensorDict) -> TensorDict | None:
        """Return the log-probabilities of all tokens by the model that the data names."""
        output = self._scorers[tu.get_non_tensor_data(data, SCORER, default=None)].infer_batch(data)
        return output.cpu() if output is not None else None

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def share_prefixes(self) -> tuple[bool, float]:
        """Compute common prefixes once if every engine agrees with verl's own passes; return that and the largest difference.

        Differences are relative; infinite for an engine that cannot share.
        """
        engines = [part.engine for part in (self.actor, self.ref) if part is not None]
        able = [engine for engine in engines if isinstance(engine, SharedPrefixEngine)]
        differences = [engine.try_sharing() for engine in able]
        agree = len(able) == len(engines) and all(engine.shares for engine in able)
        for engine in able:
            engine.shares = agree
        return agree, max(differences, default=math.inf)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def save_adapter(self, path: str, base: str) -> None:
        """Write the adapters as peft does, naming their base model. All workers take part, the first writes."""
        from safetensors.torch import save_file

        module = self.actor.engine.module
        adapters = collect_lora_params(module=module, layered_summon=False, base_sync_done=True)
        if self.rank != 0:
            return
        home = Path(path)
        home.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().cpu().contiguous() for name, value in adapters.items()}
        save_file(tensors, home / "adapter_model.safetensors")
        wrapped = getattr(module, "_fsdp_wrapped_module", module)
        settings = {key: value for key, value in wrapped.peft_config["default"].to_dict().items() if _is_json(value)}
        modules = settings.get("target_modules") or sorted(wrapped.peft_config["default"].target_modules)
        text = json.dumps({**settings, "base_model_name_or_path": base, "target_modules": modules}, indent=1)
        (home / "adapter_config.json").write_text(text, encoding="utf-8")
        self.actor.model_config.tokenizer.save_pretrained(home)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
