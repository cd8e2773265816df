"""The in-process engine: continuous batching over one model, with results that do not depend on the rest of a batch."""
