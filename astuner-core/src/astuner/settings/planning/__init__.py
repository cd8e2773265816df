"""From a configuration to a plan: which component is chosen and why, and everything that can be refused before a run starts."""
