"""The resources of an existing cluster. Ray is asked in a separate process, which ends if its key is refused."""

from __future__ import annotations

import json
import subprocess
import sys

from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.shared.services.ray import ADDRESS
from astuner_trinity.process_environment import Machine

ANSWER_S = 120.0
_ASK = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
print(json.dumps([int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]]))
"""


def adopt_cluster_gpus(machine: Machine, address: str) -> Machine:
    """Return a cluster's kind of machine, as far as it reports; raises `UsageError` for a cluster without GPUs."""
    gpus = count_gpus(address)
    if gpus is None:
        # Trinity asks again, and the run reports the result.
        return machine
    if not any(gpus):
        raise UsageError(
            f"{ADDRESS} is {address}, and its {len(gpus)} node(s) have no GPU: Trinity's trainer and vLLM compute on nothing "
            "else. Add a node that has some, or train with the backbone 'local' or 'verl', which compute on a CPU too"
        )
    having = [count for count in gpus if count]
    return evolve(machine, nodes=len(having), gpus=min(having))


def count_gpus(address: str) -> list[int] | None:
    """Return the GPUs of each node; None if the cluster does not answer."""
    command = [sys.executable, "-c", _ASK, address]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    found: list[int] = json.loads(asked.stdout.splitlines()[-1])
    return found
