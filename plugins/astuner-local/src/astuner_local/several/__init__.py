"""Several models in one run: an adapter for each target on one base, and opponents that are earlier weights."""
