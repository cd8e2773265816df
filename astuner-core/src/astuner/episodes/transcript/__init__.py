"""Episodes as text for people: transcripts with their trained tokens, and the waterfall of the training signal."""
