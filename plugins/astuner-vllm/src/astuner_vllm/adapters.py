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
    _numbers: dict[str, int]
    """Of the adapters, by their names, which vLLM's workers do not know."""

    def replace_adapter(self, name: str, path: str) -> None:
        """Give an adapter, the one loaded last if the name is new, the values of other files; requests go on with them."""
        from vllm.lora.request import LoRARequest

        loaded = self.list_loras()
        known = {other: number for other, number in getattr(self, "_numbers", {}).items() if number in loaded}
        if name not in known:
            (known[name],) = loaded - set(known.values())
        self._numbers = known
        self.add_lora(LoRARequest(lora_name=name, lora_int_id=known[name], lora_path=path, load_inplace=True))
