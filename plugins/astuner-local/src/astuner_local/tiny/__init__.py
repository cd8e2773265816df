"""Makes the tiny model of the quickstart: a chat model with tool calls, small enough to train on a CPU in seconds."""
