"""Tasks made by an LLM: questions on documents, and tasks like a few samples. Made once and stored in files."""
