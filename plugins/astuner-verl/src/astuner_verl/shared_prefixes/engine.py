"""verl's FSDP engine with passes that share prefixes: two of its steps replaced, the preparation of inputs and of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional
from verl.utils.device import get_device_id
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead

from astuner_verl.loss import COMPUTED
from astuner_verl.rows import STRETCH
from astuner_verl.shared_prefixes.layout import choose_lines

EXACT, ROUNDED = 1e-4, 5e-2
"""Largest difference of log-probabilities to verl's own pass, relative to the largest of them, in float32 and below."""
LIMIT, PLACES = "max_token_len_per_gpu", "most_places"
"""The most tokens of a pass: as verl counts them, and those that are computed."""
TRIED = ((5, 9), (5, 6), (5, 9, 3), (2, 11))
"""Lengths of the common parts of the rows that are compared."""


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor="nvidia")
class SharedPrefixEngine(FSDPEngineWithLMHead):
    """Computes what rows of a pass have in common once, with one attention mask per line of rows.

    Log-probabilities and entropies come back per row, as verl's own do, so everything after the pass is unchanged.
    """

    shares = False
    """Whether passes share; `try_sharing` decides it."""

    def forward_backward_batch(self, data: Any, loss_function: Any, forward_only: bool = False) -> Any:
        """Divide rows into passes by what is computed: verl counts common prefixes once per row."""
        limit = tu.get_non_tensor_data(data=data, key=LIMIT, default=0)
        stretch = tu.get_non_tensor_data(data=data, key=STRETCH, default=1.0) if self.shares else 1.0
        tu.assign_non_tensor(data, **{LIMIT: int(limit * stretch), PLACES: limit})
        return super().forward_backward_batch(data, loss_function, forward_only)

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the model's arguments, and what `prepare_model_outputs` needs."""
        if not self.shares:
            own: tuple[dict[str, Any], dict[str, Any]] = super().prepare_model_inputs(micro_batch)
            return own
        nested = micro_batch["input_ids"]
        device = nested.device
        lines = choose_lines(
            [row.cpu().numpy() for row in nested.unbind()],
            together=int(tu.get_non_tensor_data(data=micro_batch, key="force_group_size", default=1)),
            width=self.model_config.hf_config.get_text_config().hidden_size,
            limit=int(tu.get_non_tensor_data(data=micro_batch, key=PLACES, default=0)),
        )
        tu.assign_non_tensor(micro_batch, **{COMPUTED: lines.computed})
        targets = [torch.cat([row[1:], row[-1:]]) for row in nested.unbind()]
        outputs = {"paths": torch.from_numpy(np.concatenate(lines.paths)).to(device), "targets": torch.cat(targets)}
        inputs = {
            "input_ids": torch.from_numpy(lines.ids).to(device),
            "position_ids": torch.from_numpy(lines.positions).to(device),
            "attention_mask": torch.from_numpy(lines.sees).to(device)[:, None],  # [L, 1, N, N]
        }
        return inputs, outputs

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, Tensor]:
        """Return log-probabilities, and entropies if they are asked for: nested [rows, n], each of the token that comes next."""
        if not self.shares:
            found: dict[str, Tensor] = super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
            return found
        paths, targets = output_args["paths"], output_args["targets"]
        logits = output.logits.flatten(0, 1).float() / float(micro_batch["temperature"])  # [L * N, vocabulary]
        chosen = logits.flatten().index_select(0, paths * logits.shape[1] + targets)
        offsets = micro_batch["input_ids"].offsets()

        def to_rows(values: Tensor) -> Tensor:
            return torch.nested.nested_tensor_from_jagged(values, offsets)

        results = {"log_probs": to_rows(chosen - logits.logsumexp(-1).index_select(0, paths))}
        if tu.get_non_tensor_data(data=micro_batch, key="distillation_use_topk", default=False):
            found = logits_processor_func(student_logits=logits[None], data=micro_batch)
            results |= {name: to_rows(values[0].index_select(0, paths)) for name, values in found.items()}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            results["entropy"] = to_rows(torch_functional.entropy_from_logits(logits).index_select(0, paths))
        return results

    def try_sharing(self) -> float:
        """Share from now on if this agrees with verl's own passes on a few rows; return the relative difference.

        All workers take part, and decide alike.
        """
        vocabulary = int(self.model_config.hf_config.get_text_config().vocab_size)
        rows = [_tried_row(number, lengths, vocabulary) for number, lengths in enumerate(TRIED)]
        found = []
        for self.shares in (False, True):
            data = tu.get_tensordict(
                tensor_dict={name: _nest(values) for name, values in _fields(rows).items()},
                non_tensor_dict={
                    "temperature": 1.0,
                    "use_dynamic_bsz": True,
                    LIMIT: 10**6,
                    "use_remove_padding": False,
                    "force_group_size": 2,
                },
            )
            with self.eval_mode():
                output = self.infer_batch(data, loss_function=None)
            found.append(torch.cat([row[:-1].float().cpu() for row in output["model_output"]["log_probs"].unbind()]))
        expected, shared = found
        error = (shared - expected).abs().max() / expected.abs().max()
        error = torch.nan_to_num(error, nan=torch.inf).to(get_device_id())
        torch.distributed.all_reduce(error, op=torch.distributed.ReduceOp.MAX)
        self.shares = float(error) <= (EXACT if self._autocast_dtype == torch.float32 else ROUNDED)
        return float(error)


def _tried_row(number: int, lengths: tuple[int, ...], vocabulary: int) -> Tensor:
    """Return a row that shares its first part with rows whose first length is the same."""
    parts = [torch.arange(1, size + 1) * 7919 + 31 * place * number for place, size in enumerate(lengths)]
    return torch.cat(parts) % vocabulary


def _fields(rows: list[Tensor]) -> dict[str, list[Tensor]]:
    return {
        "input_ids": rows,
        "position_ids": [torch.arange(len(row)) for row in rows],
        "loss_mask": [torch.ones_like(row) for row in rows],
    }


def _nest(values: list[Tensor]) -> Tensor:
    nested: Tensor = torch.nested.as_nested_tensor(values, layout=torch.jagged)
    return nested
