"""New values for a LoRA adapter that a running vLLM serves. Runs in vLLM's workers, as an extension of their class."""

from __future__ import annotations

from typing import Any

EXTENSION = "astuner_vllm.adapters.ReplacesAdapters"
"""For `--worker-extension-cls`."""
METHOD = "replace_adapter"
"""For `/collective_rpc`."""


class ReplacesAdapters:
    """A method for vLLM's workers, which their class inherits.

    vLLM's own loading in place marks the adapter as one to be read from its files again: in every step of every request that asks
    for it, until the next one is loaded, and with an engine that dies when the files are gone. Here they are read once.
    """

    list_loras: Any
    add_lora: Any

    def replace_adapter(self, path: str) -> None:
        """Let the one adapter that is loaded have the values of other files; requests under way go on with them."""
        from vllm.lora.request import LoRARequest

        (number,) = self.list_loras()
        self.add_lora(LoRARequest(lora_name="policy-adapter", lora_int_id=number, lora_path=path, load_inplace=True))
