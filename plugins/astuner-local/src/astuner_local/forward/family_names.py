"""The architectures whose layers `FusedForward` computes. Imports no torch: a plan of memory reads it."""

FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""`model_type` of those that are the Llama decoder, with or without biases and q/k norms."""
