"""An agent that runs what its model says as a shell command, in turns, until the model says `done`."""

import json
import os
import subprocess
import sys
import urllib.request

messages = [{"role": "user", "content": sys.argv[1]}]
for _ in range(10):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        said = json.load(response)["choices"][0]["message"]["content"]
    messages.append({"role": "assistant", "content": said})
    if said.strip() == "done":
        break
    ran = subprocess.run(["sh", "-c", said], capture_output=True, text=True, check=False)
    messages.append({"role": "user", "content": ran.stdout + ran.stderr or "(no output)"})
print(messages[-2]["content"])
