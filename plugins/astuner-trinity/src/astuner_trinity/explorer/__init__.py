"""What Trinity's explorer loads by dotted path: the tasks, and playing a task's episodes."""
