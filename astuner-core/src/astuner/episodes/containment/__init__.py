"""The boundary around users' code: whatever it raises, swallows or leaves behind, the run goes on, and ends when it is to end."""
