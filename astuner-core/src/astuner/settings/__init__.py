"""From a YAML to a plan: everything that can fail without a GPU fails here."""
