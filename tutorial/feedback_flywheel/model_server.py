"""An OpenAI-compatible server for a small model on a CPU. In production this is vLLM, or any other server."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from typing import Any

CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


def main() -> None:
    """Serve a model directory on a loopback port."""
    import torch
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(arguments.model).eval()

    def reply_to(body: dict[str, Any]) -> str:
        prompt = tokenizer.apply_chat_template(
            body["messages"], tools=body.get("tools"), add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            ids = model.generate(**prompt, max_new_tokens=40, do_sample=False)[0, prompt["input_ids"].shape[1] :]
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    one_at_a_time = asyncio.Lock()

    async def complete(request: Request) -> JSONResponse:
        async with one_at_a_time:
            text = await asyncio.to_thread(reply_to, await request.json())
        choice = {"index": 0, "message": message_of(text), "finish_reason": "stop"}
        return JSONResponse({"id": "c", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [choice]})

    async def models(request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    routes = [Route("/v1/chat/completions", complete, methods=["POST"]), Route("/v1/models", models)]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=arguments.port, log_level="warning")


def message_of(text: str) -> dict[str, Any]:
    """Return an assistant's message: its text, and the tool calls written in it."""
    calls = []
    for written in CALL.findall(text):
        try:
            call = json.loads(written)
            function = {"name": str(call["name"]), "arguments": json.dumps(call["arguments"])}
        except (ValueError, KeyError, TypeError):
            continue
        calls.append({"id": f"call_{len(calls)}", "type": "function", "function": function})
    return {"role": "assistant", "content": CALL.sub("", text).strip(), **({"tool_calls": calls} if calls else {})}


if __name__ == "__main__":
    main()
