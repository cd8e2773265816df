"""Recording the calls of an episode: the request, the call policy, the model call under way, and the recorder of it all."""
