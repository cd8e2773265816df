"""New values for a LoRA adapter that a running vLLM serves. Runs in vLLM's workers, as an extension of their class."""

from __future__ import annotations

from typing import Any

EXTENSION = "astuner_vllm.adapters.ReplacesAdapters"
"""For `--worker-extension-cls`."""
METHOD = "replace_adapter"
"""For `/collective_rpc`."""


class ReplacesAdapters:
    """A method that the class of vLLM's workers inherits.

    vLLM's own loading in place makes it read the files again in every step of every request for the adapter, until the next one
    is loaded, and the engine dies if they are gone. Here they are read once.
    """

    list_loras: Any
    add_lora: Any

    def replace_adapter(self, path: str) -> None:
        """Give the loaded adapter the values of other files; requests under way continue with them."""
        from vllm.lora.request import LoRARequest

        (number,) = self.list_loras()
        self.add_lora(LoRARequest(lora_name="policy-adapter", lora_int_id=number, lora_path=path, load_inplace=True))
