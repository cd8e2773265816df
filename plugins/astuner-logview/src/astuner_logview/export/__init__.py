"""A group or an episode as one file: a page that opens from disk, or Markdown."""
