#!/usr/bin/env bash
# A run on a Ray cluster that is up already: scripts/cluster/submit.sh http://HEAD:8265 verl /data/tune.yaml [more arguments]
# The paths are those of the cluster's nodes. RAY_AUTH_TOKEN is the cluster's key; RAY_AUTH_MODE=disabled is a cluster without.
set -euo pipefail

dashboard=$1 backbone=$2 conf=$3
shift 3
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token}
if [[ $RAY_AUTH_MODE == token && -z ${RAY_AUTH_TOKEN:-} ]]; then
  echo "RAY_AUTH_TOKEN is not set: give the cluster's key, or set RAY_AUTH_MODE=disabled for a cluster without one" >&2
  exit 2
fi
exec ray job submit --address "$dashboard" --runtime-env-json '{"env_vars": {"RAY_ADDRESS": "auto"}}' -- \
  astuner run --conf "$conf" --backbone "$backbone" "$@"
