"""How an episode is shown to people: as text on a terminal, with its trained tokens and the waterfall of its signal."""
