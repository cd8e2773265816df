"""Recording the calls of an episode: the request, the call policy, the running model call, and the recorder."""
