"""What Trinity's trainer loads by dotted path: batches, the loss, and an extension of verl's workers."""
