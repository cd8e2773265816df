"""The weights of a served model: all of them, or adapters on the base that was loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class ServedWeights:
    """A model whose weights arrive in parts."""

    def __init__(self, model: Any) -> None:
        """Take the model as it was loaded."""
        self.model = model
        self._adapted = False
        self._arrived: set[str] = set()

    def load(self, tensors: Mapping[str, Tensor], adapter: Mapping[str, Any] | None) -> None:
        """Take over some of the weights; with `adapter`, peft's settings, they are an adapter's, and the base stays.

        Raises `RuntimeError` for names that the model does not have.
        """
        if adapter is not None and not self._adapted:
            from peft import LoraConfig, get_peft_model

            self.model = get_peft_model(self.model, LoraConfig(**adapter)).eval()
            self._adapted = True
        own = self._own()
        # Tied weights have two names, of which the module knows one.
        tied = {name for name, _ in self.model.named_parameters(remove_duplicate=False)} - set(own)
        if unknown := sorted(set(tensors) - set(own) - tied - set(dict(self.model.named_buffers()))):
            raise RuntimeError(f"weights that the model does not have: {', '.join(unknown[:5])}")
        with torch.no_grad():
            for name in set(tensors) & set(own):
                own[name].copy_(tensors[name])
                self._arrived.add(name)

    def finish(self) -> None:
        """Check that all weights arrived; raises `RuntimeError` with the missing names."""
        own = self._own()
        if missing := sorted(set(own) - self._arrived):
            raise RuntimeError(f"weights that did not come: {', '.join(missing[:5])} ({len(missing)} of {len(own)})")
        self._arrived.clear()

    def _own(self) -> dict[str, Tensor]:
        """Return what arrives, by its name on the way: every weight, or the adapter's."""
        if not self._adapted:
            return dict(self.model.named_parameters())
        from peft.utils.save_and_load import get_peft_model_state_dict

        return dict(get_peft_model_state_dict(self.model))
