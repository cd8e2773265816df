"""`astuner eval`: one contestant or several on the same tasks and seeds, with what their difference is worth."""
