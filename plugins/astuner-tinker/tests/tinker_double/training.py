"""The double of `tinker.TrainingClient`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tinker
import torch
from tinker import types
from tinker.lib.public_interfaces.api_future import APIFuture, AwaitableConcurrentFuture

from tinker_double.adam import Adam
from tinker_double.lora_model import LoraModel
from tinker_double.losses import Row, check_loss, compute_losses, read_row
from tinker_double.sampling import SamplingClientDouble
from tinker_double.store import make_error

if TYPE_CHECKING:
    from tinker_double.service import ServiceDouble


class TrainingClientDouble:
    """One adapter and its optimizer."""

    def __init__(self, service: ServiceDouble, model_id: str, base_model: str, model: LoraModel) -> None:
        self.model_id = model_id
        self.base_model = base_model
        self.model = model
        self.service, self._behaviour, self._store = service, service.behaviour, service.store
        self._adam = Adam(model.parameters)
        self._used = False
        self._denominator = 0.0
        """Of the gradients so far, where the mean over all calls is formed at the step."""

    def forward(
        self, data: Sequence[types.Datum], loss_fn: str, loss_fn_config: Mapping[str, float] | None = None
    ) -> APIFuture[types.ForwardBackwardOutput]:
        """Return the log-probabilities of the targets."""
        return self._submit(self._pass, list(data), loss_fn, loss_fn_config, learn=False)

    def forward_backward(
        self, data: Sequence[types.Datum], loss_fn: str, loss_fn_config: Mapping[str, float] | None = None
    ) -> APIFuture[types.ForwardBackwardOutput]:
        """Do the same, and add the gradient of the loss to what the next `optim_step` takes."""
        if not data:
            raise ValueError("No data provided")
        return self._submit(self._pass, list(data), loss_fn, loss_fn_config, learn=True)

    def optim_step(self, adam_params: types.AdamParams) -> APIFuture[types.OptimStepResponse]:
        """Move the adapters."""
        return self._submit(self._step, adam_params)

    def save_state(
        self, name: str, ttl_seconds: int | None = None, overwrite: bool = False
    ) -> APIFuture[types.SaveWeightsResponse]:
        """Write weights and optimizer; raises ConflictError for a name that exists."""

        def write() -> types.SaveWeightsResponse:
            moments = self._adam.tensors(exact=self._behaviour.exact_resume)
            return types.SaveWeightsResponse(path=self._write(f"weights/{name}", overwrite, optimizer=moments))

        return self._submit(write)

    def save_weights_for_sampler(
        self, name: str, ttl_seconds: int | None = None
    ) -> APIFuture[types.SaveWeightsForSamplerResponse]:
        """Write weights; raises ConflictError for a name that exists."""
        return self._submit(
            lambda: types.SaveWeightsForSamplerResponse(path=self._write(f"sampler_weights/{name}", overwrite=False))
        )

    def save_weights_and_get_sampling_client(self) -> SamplingClientDouble:
        """Return a client that samples from the weights of now, or from those of each request where snapshots are live."""
        if self._behaviour.live_snapshots:
            return SamplingClientDouble(self.service, self.model.merge)
        snapshot = self.service.submit(self.model.merge).result()
        return SamplingClientDouble(self.service, lambda: snapshot)

    def load_state(self, path: str) -> APIFuture[types.LoadWeightsResponse]:
        """Take the weights of a saved state."""
        return self._submit(self.restore, path, optimizer=False)

    def load_state_with_optimizer(self, path: str) -> APIFuture[types.LoadWeightsResponse]:
        """Take the weights and the optimizer of a saved state."""
        return self._submit(self.restore, path, optimizer=True)

    def get_tokenizer(self) -> Any:
        """Return the tokenizer of the base model."""
        return self.service.load_tokenizer(self.base_model)

    def restore(self, path: str, *, optimizer: bool) -> types.LoadWeightsResponse:
        """Load in the worker's thread."""
        if self._used and not self._behaviour.loads_in_place:
            raise make_error(tinker.BadRequestError, "LoadWeights is not permitted on a model that has been used")
        self.model.load(self._store.read(path, "adapter_model"))
        self._adam = Adam(self.model.parameters)
        if optimizer:
            self._adam.load(self._store.read(path, "optimizer"))
        return types.LoadWeightsResponse(path=path)

    def _submit(self, act: Callable[..., Any], *args: Any, **options: Any) -> APIFuture[Any]:
        return AwaitableConcurrentFuture(self.service.submit(act, *args, **options))

    def _write(self, place: str, overwrite: bool, **more: Mapping[str, Any]) -> str:
        tensors = {"adapter_model": self.model.parameters, **more}
        return self._store.write(self.model_id, place, tensors, overwrite=overwrite or self._behaviour.overwrites)

    def _pass(
        self, data: list[types.Datum], loss: str, config: Mapping[str, float] | None, *, learn: bool
    ) -> types.ForwardBackwardOutput:
        self._used = True
        check_loss(loss, config)
        refuse_weights = self._behaviour.weights == "refused"
        rows = [read_row(datum, loss, refuse_weights=refuse_weights) for datum in data]
        tokens = sum(len(row.ids) for row in rows)
        self._store.record(
            "forward_backward" if learn else "forward",
            model=self.model_id,
            rows=len(rows),
            **{"trained_tokens" if learn else "forward_tokens": tokens},
        )
        outputs, total = [], 0.0
        size = self._behaviour.rows_per_chunk or max(1, len(rows))
        for chunk in (rows[start : start + size] for start in range(0, len(rows), size)):
            divisors = self._divide(chunk, learn=learn)
            for row, divisor in zip(chunk, divisors, strict=True):
                with torch.set_grad_enabled(learn):
                    logprobs = self.model.compute_logprobs(row.ids, row.inputs["target_tokens"])
                    summed = compute_losses(loss, logprobs, row, config).sum()
                if learn and divisor:
                    torch.autograd.backward(summed / divisor)
                total += summed.item()
                outputs.append({"logprobs": types.TensorData.from_torch(logprobs.detach())})
        metrics = {"loss:sum": total} if self._behaviour.reports_loss else {}
        return types.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", loss_fn_outputs=outputs, metrics=metrics)

    def _divide(self, rows: Sequence[Row], *, learn: bool) -> list[float]:
        """Return what the summed loss of each row is divided by: now, or at the step too where calls are averaged."""
        sums = [float(row.weights.sum()) for row in rows]
        own = sums if self._behaviour.within == "rows" else [1.0] * len(rows)
        whole = {"sum": 1.0, "tokens": sum(sums), "rows": float(len(rows))}[self._behaviour.within]
        if self._behaviour.across == "adds":
            return [each * whole for each in own]
        if learn:
            self._denominator += whole
        return own

    def _step(self, settings: types.AdamParams) -> types.OptimStepResponse:
        self._used = True
        if settings.learning_rate <= 0 and not self._behaviour.accepts_zero_lr:
            raise make_error(tinker.UnprocessableEntityError, "learning_rate: Input should be greater than 0")
        parameters = self.model.parameters.values()
        if self._denominator:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad /= self._denominator
        limit = settings.grad_clip_norm if self._behaviour.honours_grad_clip else 0.0
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit or torch.inf))
        self._adam.step(settings)
        self._denominator = 0.0
        for parameter in parameters:
            parameter.grad = None
        name = self._behaviour.gradient_norm
        return types.OptimStepResponse(metrics={name: norm} if name else None)
