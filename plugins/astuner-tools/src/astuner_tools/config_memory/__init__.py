"""`astuner config memory`: what a run would hold in memory. No training run enters this room."""
