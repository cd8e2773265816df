"""Posts the progress of a run to a webhook, as chat services take it."""
