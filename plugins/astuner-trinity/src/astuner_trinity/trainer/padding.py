"""What verl 0.8 lacks where rows are not packed: padding without flash-attention, and passes whose size counts padding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any


def provide_padding() -> None:
    """Let verl pad and unpad rows in plain torch where flash-attention is missing; verl itself does so only on NPUs."""
    if find_spec("flash_attn") is None:
        from verl.utils import attention_utils

        attention_utils._get_attention_functions = _import_plain_functions


def _import_plain_functions() -> tuple[Callable[..., Any], ...]:
    from verl.utils.npu_flash_attn_utils import index_first_axis, pad_input, rearrange, unpad_input

    return index_first_axis, pad_input, rearrange, unpad_input


def fill_passes(lengths: Sequence[int], limit: int, at_least: int = 1) -> list[list[int]]:
    """Return the rows of each pass, such that its rows times the longest of them are at most `limit` tokens.

    A row longer than `limit` is alone in its pass. There are `at_least` passes, as long as each has a row.
    """
    passes: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if passes and (len(passes[-1]) + 1) * lengths[passes[-1][0]] <= limit:
            passes[-1].append(row)
        else:
            passes.append([row])
    while len(passes) < min(at_least, len(lengths)):
        longest = max(passes, key=len)
        half = len(longest) // 2
        passes.append(longest[half:])
        del longest[half:]
    return passes


def wrap_splitter(split: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap verl's `rearrange_micro_batches`, which fills a pass without counting the padding that rows without packing need."""

    @functools.wraps(split)
    def rearrange(
        batch: Any, max_token_len: int, dp_group: Any = None, same_micro_num_in_dp: bool = True, **options: Any
    ) -> tuple[list[Any], list[list[int]]]:
        from verl.utils import tensordict_utils as tu

        if tu.get_non_tensor_data(batch, "use_remove_padding", default=True):
            return split(batch, max_token_len, dp_group=dp_group, same_micro_num_in_dp=same_micro_num_in_dp, **options)  # type: ignore[no-any-return]
        lengths = batch["input_ids"].offsets().diff().tolist()
        passes = fill_passes(lengths, max_token_len)
        if dp_group is not None and same_micro_num_in_dp:
            # Workers gather the weights of a layer together, so each makes as many passes as any other.
            passes = fill_passes(lengths, max_token_len, _find_most(len(passes), dp_group))
        return [tu.index_select_tensor_dict(batch, rows) for rows in passes], passes

    return rearrange


def _find_most(count: int, group: Any) -> int:
    import torch
    import torch.distributed as dist
    from verl.utils.device import get_device_name

    if not dist.is_initialized():
        return count
    most = torch.tensor([count], device=get_device_name())
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    return int(most.item())
