"""An agent that prints the events of one streamed answer as they come. It knows OPENAI_BASE_URL and OPENAI_API_KEY, no more."""

from __future__ import annotations

import json
import os
from urllib.request import Request, urlopen

body = {"model": "any", "messages": [{"role": "user", "content": "Go on."}], "stream": True}
headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
request = Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(body).encode(), headers)
with urlopen(request, timeout=60) as answer:
    for line in answer:
        print(line.decode().rstrip(), flush=True)
