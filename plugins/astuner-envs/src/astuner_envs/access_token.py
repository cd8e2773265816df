"""The environment variable with the bearer token of a server of environments; clients of `astuner-env-service` read it too."""

TOKEN = "ASTUNER_ENV_TOKEN"
