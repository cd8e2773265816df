#!/bin/sh
set -u
expected=$(cat /tests/expected.txt)
if [ "$(cat /app/count.txt)" = "$expected" ]; then exact=1; else exact=0; fi
[ -s /app/count.txt ] && wrote=1 || wrote=0
printf '{"reward": %s, "wrote": %s}\n' "$exact" "$wrote" > /logs/verifier/reward.json
