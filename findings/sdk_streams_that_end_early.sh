#!/usr/bin/env bash
# openai 3.57.0 and anthropic 2.14.0: a stream that ends early is a finished answer, and one that breaks raises another library's error.
#
# * The server ends its response in order, but before the last events (no finish_reason and no `[DONE]`; no `message_stop`), as a
#   proxy with a limit of time does. Both SDKs' helpers, `chat.completions.stream(…).get_final_completion()` and
#   `messages.stream(…).get_final_message()`, return the beginning of the answer as the answer. Only its finish_reason or
#   stop_reason, None, differs. An agent that does not look acts on half an answer, and its log shows no error.
# * The connection breaks in the middle of a stream. openai raises `openai.APIConnectionError`. anthropic raises
#   `httpx2.RemoteProtocolError` as it is, so neither `except anthropic.APIError` nor, since the SDK left httpx,
#   `except httpx.HTTPError` handles it.
#
# Seen with Python 3.11.7 on Linux, 28 November 2026:
#   openai ended early: 'Hel' None
#   anthropic ended early: 'Hel' None
#   openai broken: openai.APIConnectionError
#   anthropic broken: httpx2.RemoteProtocolError
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "openai==3.57.0" "anthropic==2.14.0" "httpx2==2.16.2"
cat >"$work/streams.py" <<'PYTHON'
import json
import socket
import threading

import anthropic
import openai

CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None}],
}
USAGE = {"input_tokens": 1, "output_tokens": 1}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": USAGE}
EVENTS = [
    {"type": "message_start", "message": MESSAGE | {"stop_reason": None, "stop_sequence": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
]
OPENAI = f"data: {json.dumps(CHUNK)}\n\n"
ANTHROPIC = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Greet me."}]}


def serve(text, broken):
    """Answer one request with the beginning of a stream; if `broken`, the chunk that ends it never comes."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = server.accept()
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += connection.recv(65536)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        body = text.encode()
        connection.sendall(head + b"%x\r\n%s\r\n" % (len(body), body) + (b"" if broken else b"0\r\n\r\n"))
        connection.close()

    threading.Thread(target=answer, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def ask_openai(broken):
    client = openai.OpenAI(api_key="none", base_url=f"{serve(OPENAI, broken)}/v1", max_retries=0)
    with client.chat.completions.stream(**ASKED) as stream:
        choice = stream.get_final_completion().choices[0]
    return f"{choice.message.content!r} {choice.finish_reason}"


def ask_anthropic(broken):
    client = anthropic.Anthropic(api_key="none", base_url=serve(ANTHROPIC, broken), max_retries=0)
    with client.messages.stream(**ASKED, max_tokens=9) as stream:
        message = stream.get_final_message()
    return f"{message.content[0].text!r} {message.stop_reason}"


for broken in (False, True):
    for name, ask in (("openai", ask_openai), ("anthropic", ask_anthropic)):
        try:
            seen = ask(broken)
        except Exception as error:
            seen = f"{type(error).__module__}.{type(error).__name__}"
        print(f"{name} {'broken' if broken else 'ended early'}: {seen}")
PYTHON
"$work/venv/bin/python" "$work/streams.py" | tee "$work/seen"
diff "$work/seen" - <<'EXPECTED'
openai ended early: 'Hel' None
anthropic ended early: 'Hel' None
openai broken: openai.APIConnectionError
anthropic broken: httpx2.RemoteProtocolError
EXPECTED
