"""A program that asks its model once, as an agent would, and does what the answer says."""

import json
import os
import subprocess
import sys
import time
import urllib.request

query = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": query}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps(body).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as response:
    answer = json.load(response)["choices"][0]["message"]["content"]
with open("answer.txt", "w", encoding="utf-8") as file:
    file.write(answer)
match answer:
    case "exit":
        print("no way out", file=sys.stderr)
        sys.exit(3)
    case "hang":
        time.sleep(1000)
    case "flood":
        while True:
            print("flood" * 1000)
    case "fork":
        for _ in range(20):
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
        time.sleep(1000)
    case "fill":
        with open("big.dat", "wb") as big:
            while True:
                big.write(bytes(1024 * 1024))
print(answer)
