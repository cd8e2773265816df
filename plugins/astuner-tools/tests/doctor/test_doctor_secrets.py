"""What the doctor shows has no secret in it, and still says where things are."""

from __future__ import annotations

from astuner_tools.doctor.secrets import Variables


def test_a_value_of_a_variable_that_sounds_like_a_secret_is_hidden() -> None:
    variables = Variables(environment={"ACME_TOKEN": "tk-8142-beta"}, dotenv={"ACME_PLACE": "north-wing-4"})
    assert variables.hide("asked with tk-8142-beta at north-wing-4") == "asked with <redacted> at <redacted>"


def test_the_working_directory_is_no_password() -> None:
    variables = Variables(environment={"PWD": "/home/me/agents", "OLDPWD": "/home/me"}, dotenv={})
    assert variables.hide("pip install /home/me/agents/plugins") == "pip install /home/me/agents/plugins"
