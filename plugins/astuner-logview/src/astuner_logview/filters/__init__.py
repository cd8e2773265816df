"""The language of the search box: what it means, what it selects, and what completes it."""
