#!/usr/bin/env bash
# A run on several nodes of a SLURM cluster: sbatch --nodes=4 scripts/cluster/slurm.sh verl tune.yaml [more arguments of astuner run]
# The first argument is the backbone, verl or trinity, whose environment is active. Run directory and model lie where every
# node sees them. HEAD_ADDRESS and HEAD_PORT replace the address that is found on the first node, and port 6379.
#SBATCH --job-name=astuner
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive

# Prints the address of a node that others can reach, out of the words on standard input: what `hostname --ip-address` and
# `hostname --all-ip-addresses` print there. Debian's first address is 127.0.1.1, others print IPv6 first.
choose_address() {
  local word global=
  local -a words
  mapfile -t words < <(tr -s '[:space:]' '\n')
  for word in "${words[@]}"; do
    case ${word,,} in
      "" | 127.* | 169.254.* | 0.0.0.0 | ::1 | fe80:*) ;;
      *:*) global=${global:-[$word]} ;;
      *.*.*.*) echo "$word" && return ;;
    esac
  done
  if [[ -z $global ]]; then
    echo "no address that other nodes reach; set HEAD_ADDRESS. Found: ${words[*]}" >&2
    return 1
  fi
  echo "$global"
}

# Waits until as many nodes as the argument says belong to the cluster: a trainer asks for all GPUs at once.
wait_for_nodes() {
  python - "$1" <<'PY'
import sys
import time

import ray

wanted, deadline = int(sys.argv[1]), time.monotonic() + 600
while True:
    try:
        ray.init(address="auto", log_to_driver=False)
        break
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        if time.monotonic() > deadline:
            sys.exit(f"no head node after 600 s: {error}")
        time.sleep(5)
while (alive := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > deadline:
        sys.exit(f"{alive} of {wanted} nodes after 600 s")
    time.sleep(5)
PY
}

main() {
  set -euo pipefail
  local backbone=$1 conf=$2
  shift 2
  local gpus=${SLURM_GPUS_ON_NODE:-8} port=${HEAD_PORT:-6379} cpus=${SLURM_CPUS_ON_NODE:-1} address node
  local -a nodes on
  mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  on=(srun --nodes=1 --ntasks=1 --overlap --cpus-per-task="$cpus")
  address=${HEAD_ADDRESS:-$("${on[@]}" --nodelist="${nodes[0]}" \
    bash -c 'hostname --ip-address; hostname --all-ip-addresses' | choose_address)}

  # Ray listens on all interfaces: without its key, whoever reaches a port runs code as this user. srun hands these on.
  if [[ ${RAY_AUTH_MODE:=token} == token && -z ${RAY_AUTH_TOKEN:-} ]]; then
    RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
  fi
  export RAY_AUTH_MODE RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED=0 RAY_ADDRESS=$address:$port

  trap 'jobs -p | xargs -r kill 2>/dev/null || true; wait' EXIT
  "${on[@]}" --nodelist="${nodes[0]}" ray start --head --node-ip-address="${address//[\[\]]/}" --port="$port" \
    --num-gpus="$gpus" --include-dashboard=false --disable-usage-stats --block &
  for node in "${nodes[@]:1}"; do
    "${on[@]}" --nodelist="$node" bash -c \
      "until ray start --address=$RAY_ADDRESS --num-gpus=$gpus --disable-usage-stats --block; do sleep 5; done" &
  done
  wait_for_nodes "${#nodes[@]}"

  astuner run --conf "$conf" --backbone "$backbone" \
    --set "trainer_common.nnodes=${#nodes[@]}" --set "trainer_common.n_gpus_per_node=$gpus" "$@"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  main "$@"
fi
