"""A rollout engine for verl based only on transformers: for machines without an accelerator, and small models on any."""
