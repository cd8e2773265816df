"""Trains LoRA adapters through the API of Tinker: the server holds the model, astuner plays the episodes and leads the run."""
