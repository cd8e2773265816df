"""Judges that ask an LLM."""
