"""What a plugin and a run are made of: data, kinds of components, hooks, errors."""
