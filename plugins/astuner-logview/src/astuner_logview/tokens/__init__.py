"""The tokens of an episode: streams of its tree, their texts, and what is known of each token."""
