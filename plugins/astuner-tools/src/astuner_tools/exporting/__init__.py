"""`astuner export`: a checkpoint as files that other programs serve."""
