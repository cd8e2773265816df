"""The token tree: which recorded stream a new request continues, id for id."""
