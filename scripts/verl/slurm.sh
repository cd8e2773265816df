#!/usr/bin/env bash
# A run on several nodes of a SLURM cluster: sbatch --nodes=4 scripts/verl/slurm.sh tune.yaml [more arguments of astuner run]
# The environment with astuner-verl is active, and run directory and model lie where every node sees them.
#SBATCH --job-name=astuner
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
set -euo pipefail

conf=$1
shift
gpus=${SLURM_GPUS_ON_NODE:-8}
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')
port=6379
export RAY_ADDRESS=$address:$port

srun --nodes=1 --ntasks=1 --nodelist="$head" --cpus-per-task="${SLURM_CPUS_ON_NODE:-1}" \
  ray start --head --node-ip-address="$address" --port="$port" --num-gpus="$gpus" --block &
for node in "${nodes[@]:1}"; do
  srun --nodes=1 --ntasks=1 --nodelist="$node" --cpus-per-task="${SLURM_CPUS_ON_NODE:-1}" \
    bash -c "until ray start --address=$RAY_ADDRESS --num-gpus=$gpus --block; do sleep 5; done" &
done

# All nodes have to be there before a trainer asks for their GPUs.
python - "${#nodes[@]}" <<'PY'
import sys
import time

import ray

wanted, deadline = int(sys.argv[1]), time.monotonic() + 600
while True:
    try:
        ray.init(address="auto", log_to_driver=False)
        break
    except (ConnectionError, RuntimeError, TimeoutError, ValueError):
        if time.monotonic() > deadline:
            sys.exit("no head node after 600 s")
        time.sleep(5)
while (alive := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > deadline:
        sys.exit(f"{alive} of {wanted} nodes after 600 s")
    time.sleep(5)
PY

astuner run --conf "$conf" --backbone verl \
  --set "trainer_common.nnodes=${#nodes[@]}" --set "trainer_common.n_gpus_per_node=$gpus" "$@"
