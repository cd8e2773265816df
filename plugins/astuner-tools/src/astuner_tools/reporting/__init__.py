"""A run as one page of evidence: what it was, what came of it, and where each figure is from."""
