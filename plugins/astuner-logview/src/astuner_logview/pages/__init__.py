"""What each page asks for: functions from the library of runs and the parameters of a request to a JSON object."""
