"""What Trinity's trainer loads by dotted path: what makes a step's batch, the loss, and what verl's workers do besides."""
