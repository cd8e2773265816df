#!/bin/bash

python3 -m pytest -p no:cacheprovider -q /tests/test_outputs.py -rA > /logs/verifier/pytest.txt 2>&1
passed=$?
cat /logs/verifier/pytest.txt
python3 /tests/write_reward.py /logs/verifier/pytest.txt "$passed" > /logs/verifier/reward.json
