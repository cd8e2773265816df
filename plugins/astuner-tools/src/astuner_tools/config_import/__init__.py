"""`astuner config import`: translating the configuration of another trainer. No training run enters this room."""
