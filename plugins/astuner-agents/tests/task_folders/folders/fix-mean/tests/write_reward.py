import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    lines = file.read().splitlines()
passed = sum(line.startswith("PASSED") for line in lines)
failed = sum(line.startswith("FAILED") for line in lines)
print(json.dumps({"reward": float(sys.argv[2] == "0"), "share": passed / max(1, passed + failed)}))
