"""What leaves tasks out: what users said, duplicates, the opinion of an LLM."""
