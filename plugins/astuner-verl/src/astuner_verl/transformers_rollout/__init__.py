"""A rollout engine for verl that is transformers alone: for machines without an accelerator, and small models on any."""
