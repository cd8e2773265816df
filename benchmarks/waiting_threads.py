"""Times small matrix products by two threads, as a small model computes them, once for each way in which idle threads wait.

`python benchmarks/waiting_threads.py`, on a machine whose cores other programs use too. On an idle one both take the same.
"""

from __future__ import annotations

import os
import subprocess
import sys

WORK = """
import resource, time, torch
torch.set_num_threads(2)
states, up, down = torch.randn(64, 576), torch.randn(1536, 576), torch.randn(576, 1536)
began = time.perf_counter()
for _ in range(60):
    torch.nn.functional.linear(torch.nn.functional.silu(torch.nn.functional.linear(states, up)), down)
used = resource.getrusage(resource.RUSAGE_SELF)
print(f"{time.perf_counter() - began:.2f} s, {used.ru_utime + used.ru_stime:.1f} CPU s with the import of torch")
"""


def main() -> None:
    """Alternate, since the load of the machine changes."""
    print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    for _ in range(3):
        for policy in ("ACTIVE", "PASSIVE"):
            environment = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": policy}
            try:
                done = subprocess.run(
                    [sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=True, timeout=60
                )
                print(policy, done.stdout.strip(), flush=True)
            except subprocess.TimeoutExpired:
                print(policy, "not done after 60 s", flush=True)


if __name__ == "__main__":
    main()
