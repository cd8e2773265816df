"""Tasks made by an LLM: questions on documents, and tasks like a few samples. Made once, kept in files, read from then on."""
