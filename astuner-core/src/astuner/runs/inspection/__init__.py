"""Reading runs of any state, while they run too: their state, metrics and episodes, and how two differ. Nothing is changed."""
