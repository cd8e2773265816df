"""In vLLM's place: an engine of Trinity's over astuner's own in-process one, with the part of vLLM's server that is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from aiohttp import web
from trinity.common.constants import SyncMethod
from trinity.common.models.model import BaseInferenceModel

from astuner.schema import Request, Sampling
from astuner_local.engine.serving import Serving, load


class vLLMRolloutModel(BaseInferenceModel):  # the name that Trinity imports
    """Ray actor. Takes weights from Trinity's synchronizer, in memory or from a checkpoint."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.version = 0
        self._url: str | None = None
        self._runner: web.AppRunner | None = None
        self._numbers = 0

    async def prepare(self) -> None:
        """Load the model and open the server."""
        if self._prepared:
            return
        torch.set_num_threads(1)
        self._model = load(self.config.model_path, "float32", device="cpu")
        most = int(self.config.extra_engine_args.get("max_num_seqs", 16))
        self._serving = Serving(self._model, dtype="float32", max_model_len=self.config.max_model_len, max_num_seqs=most)
        self._serving.start()
        app = web.Application(client_max_size=2**26)
        app.add_routes([web.get("/health", self._health), web.post("/v1/completions", self._complete)])
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        _, port = self.get_available_address(random_port=True)
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self._url = f"http://127.0.0.1:{port}"
        self._prepared = True

    def get_api_server_url(self) -> str | None:
        """Return the server's address."""
        return self._url

    def get_model_version(self) -> int:
        """Return the weights' version."""
        return self.version

    async def sync_model_weights(self, model_version: int, method: SyncMethod, timeout: float = 1200) -> int:
        """Take over weights; raises `RuntimeError` when some are missing."""
        weights = await self._in_memory() if method == SyncMethod.MEMORY else self._on_disk(model_version)
        own = dict(self._model.named_parameters())
        if missing := sorted(set(own) - set(weights)):
            raise RuntimeError(f"weights that did not come: {', '.join(missing[:5])} ({len(missing)} of {len(own)})")
        async with self._serving._turn:
            with torch.no_grad():
                self._copy(own, weights)
        await self._serving.update_weights(None, model_version)
        self.version = model_version
        return model_version

    @staticmethod
    def _copy(own: dict[str, Any], weights: dict[str, Any]) -> None:
        for name, tensor in own.items():
            tensor.copy_(weights[name])

    async def shutdown(self) -> None:
        """Close the server."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _in_memory(self) -> dict[str, Any]:
        from trinity.manager.synchronizer import Synchronizer

        synchronizer = Synchronizer.get_actor(namespace=self.config.ray_namespace)
        weights, _ = await synchronizer.get_model_state_dict.remote()
        return dict(weights)

    def _on_disk(self, version: int) -> dict[str, Any]:
        from safetensors.torch import load_file

        actor = Path(self.config.checkpoint_job_dir, f"global_step_{version}", "actor")
        found = next(path for path in (actor / "model.safetensors", actor / "huggingface" / "model.safetensors") if path.exists())
        return load_file(found)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self._numbers += 1
        sampling = Sampling(
            temperature=asked["temperature"],
            top_p=asked["top_p"],
            top_k=asked["top_k"],
            max_tokens=asked["max_tokens"],
            stop_token_ids=tuple(asked["stop_token_ids"]),
            seed=asked["seed"],
        )
        name = f"request-{self._numbers}"
        wanted = Request(id=name, session=name, prompt_ids=asked["prompt"], sampling=sampling)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            async for chunk in self._serving.generate(wanted):
                choice = {
                    "index": 0,
                    "token_ids": list(map(int, chunk.ids)),
                    "logprobs": {"token_logprobs": list(map(float, chunk.logprobs))},
                    "finish_reason": chunk.finish_reason,
                }
                await answer.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
            await answer.write(b"data: [DONE]\n\n")
        finally:
            await self._serving.release(name)
        return answer
