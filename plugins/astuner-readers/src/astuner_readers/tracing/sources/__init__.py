"""Where traces lie: OTLP files, the databases of AgentScope Studio and Phoenix, Phoenix's REST API."""
