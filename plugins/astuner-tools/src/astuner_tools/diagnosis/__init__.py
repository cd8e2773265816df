"""Why a run does not learn: rules about what it has recorded, and the findings that they lead to."""
