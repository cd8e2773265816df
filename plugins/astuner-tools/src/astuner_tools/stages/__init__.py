"""Several trainings of one YAML, one after the other: each is a run that begins with the weights of the one before."""
