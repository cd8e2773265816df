"""`astuner config import`: the configuration of another trainer as one of ours. No training run enters this room."""
