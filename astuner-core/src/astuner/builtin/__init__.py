"""Components that every install needs; they come in through entry points like everybody else's."""
