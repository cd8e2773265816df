"""Padding and unpadding rows where flash-attention is not installed: verl 0.8 takes these functions from it alone."""

from __future__ import annotations

from importlib.util import find_spec


def provide_padding() -> None:
    """Let verl use its own functions in plain torch, which it keeps for NPUs, if there is no flash-attention.

    They give the same values. Rows are still computed with padding then: packing them needs flash-attention itself.
    """
    if find_spec("flash_attn") is not None:
        return
    from verl.utils import attention_utils, npu_flash_attn_utils

    names = ("index_first_axis", "pad_input", "rearrange", "unpad_input")
    functions = tuple(getattr(npu_flash_attn_utils, name) for name in names)
    attention_utils._get_attention_functions = lambda: functions
