"""`astuner warm-start`: demonstrations trained by verl's actor workers, without engines."""
