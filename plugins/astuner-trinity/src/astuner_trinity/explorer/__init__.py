"""What Trinity's explorer loads by dotted path: where tasks come from, and how a task's episodes are played."""
