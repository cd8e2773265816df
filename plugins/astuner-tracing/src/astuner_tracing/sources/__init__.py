"""Sources of traces: OTLP files, the databases of AgentScope Studio and Phoenix, Phoenix's REST API."""
