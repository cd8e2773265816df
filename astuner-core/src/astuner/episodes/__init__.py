"""One episode and one group: played, judged, and turned into samples."""
