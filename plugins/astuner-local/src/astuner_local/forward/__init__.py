"""One forward pass over a packed list of tokens, shared by the engine and the trainer."""
