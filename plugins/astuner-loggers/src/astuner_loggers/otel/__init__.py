"""The logger `otel`: each episode as an OpenTelemetry trace, for AgentScope Studio, Phoenix, Langfuse, MLflow and others."""
