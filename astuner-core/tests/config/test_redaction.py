"""What is taken for a secret in configurations, commands and headers, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astuner.settings.config.redaction import REDACTED, is_secret, redact_keys, redact_text, redact_tree, redact_values

SECRET = "hunter3pw99"
LETTERS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=16, max_size=40)


@pytest.mark.parametrize(
    "key",
    [
        "Authorization",
        "Proxy-Authorization",
        "X-Auth",
        "X-Auth-Token",
        "auth",
        "Cookie",
        "Set-Cookie",
        "bearer",
        "basicAuth",
        "credentials",
        "aws_credential",
        "jwt",
        "oauth",
        "DB_PWD",
        "passphrase",
    ],
)
def test_a_key_for_logging_in_is_a_secret(key: str) -> None:
    assert redact_tree({"extra": {key: SECRET}}) == {"extra": {key: REDACTED}}


@pytest.mark.parametrize(
    "key",
    [
        "author",
        "authors",
        "authority",
        "authentic",
        "max_tokens",
        "tokenizer",
        "eos_token",
        "eos_token_id",
        "auth_type",
        "auth_mode",
        "oauth_url",
        "authMethod",
        "token_path",
        "credentials_file",
        "SSH_AUTH_SOCK",
        "cookie_path",
        "bearings",
        "forward",
        "jitter",
        "primary_key",
        "answer_key",
        "keypoints",
        "secretary",
    ],
)
def test_a_key_that_only_sounds_like_one_is_not(key: str) -> None:
    assert redact_tree({key: SECRET}) == {key: SECRET}
    assert not is_secret(key)


@pytest.mark.parametrize(
    "text",
    [
        "python -m serve --password {}",
        "python -m serve --password={} --port 80",
        "python -m serve --api-key '{}'",
        "python -m serve --auth {}",
        "OPENAI_API_KEY={} python -m serve",
        "curl -H 'Authorization: Bearer {}' http://host",
        'curl -H "authorization: Basic {}" http://host',
        "curl -H 'Cookie: session={}; theme=dark'",
        "curl -H 'X-Api-Key: {}'",
        '{{"Authorization": "Bearer {}"}}',
        "failed with header Bearer {}",
        "postgres://user:{}@host/db",
    ],
)
@given(secret=LETTERS)
@example(secret="a" * 16)
def test_the_value_of_a_flag_a_header_or_an_address_is_removed_from_any_text(text: str, secret: str) -> None:
    assert secret not in redact_values(text.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0.abcdefghijklmnop",
        "xoxb" + "-123456789012-abcdefghijkl",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "glpat" + "-abcdefghijklmnopqrst",
        "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_key_of_a_known_form_is_removed_wherever_it_is(text: str) -> None:
    assert redact_tree({"note": f"use {text} here"}) == {"note": f"use {REDACTED} here"}


@pytest.mark.parametrize(
    "text",
    [
        "python -m serve --max-tokens 512 --tokenizer gpt2 --author Ann --eos-token x --token-file t",
        "The bearer of this letter may enter.",
        "Recipe: cookie: chocolate, 3 cups",
        "authorization: required",
        "sorted(rows, key=lambda row: row.password)",
        "LEARNING_RATE=1e-6 python train.py",
        "http://host:8000/path@2x",
        "the password is not --password",
        "sort --key 2,2n file.csv",
        "openssl genrsa --key-size 2048",
        "gpg --keyserver hkps://x --recv-keys ABC",
        "MAX_TOKEN=512",
        "TOKEN_BUDGET=100",
        "KEY_COUNT=3",
        "PASSWORD_MIN_LENGTH=8",
        "ROW_KEY=user_id",
        "The --token option was added.",
        "The --password option was added.",
        "auth: none",
        "Authorization: Basic authentication",
        "Bearer authentication",
        "Cookie: name=value is sent",
        "sk-learning-rate",
        "API_KEY=your-key",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact_values(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("serve --password hunter3pw", "serve --password <redacted>"),
        ("serve --password 1234", "serve --password <redacted>"),
        ("DB_PASSWORD=hunter", "DB_PASSWORD=<redacted>"),
        ("ACCESS_TOKEN=a1b2c3d4e5", "ACCESS_TOKEN=<redacted>"),
        ("serve --api-key Ab3dEf6hIj", "serve --api-key <redacted>"),
        ("the key sk-abc123def", "the key <redacted>"),
    ],
)
def test_a_value_that_is_no_ordinary_word_or_number_is_removed(text: str, kept: str) -> None:
    assert redact_values(text) == kept


@pytest.mark.parametrize("text", ["serve --password hunter3pw", "ACCESS_TOKEN=a1b2c3d4e5", "docker run -e API_KEY=Ab3dEf6hIj x"])
def test_what_a_program_is_given_is_not_for_certain_a_secret(text: str) -> None:
    assert redact_keys(text) == text


@pytest.mark.parametrize(
    "text", ["sk-abc123def", "Authorization: Bearer a1b2c3d4e5", "X-Api-Key: Ab3dEf6hIj", "AKIA" + "IOSFODNN7EXAMPLE"]
)
def test_a_key_or_a_header_is_for_certain_a_secret(text: str) -> None:
    assert REDACTED in redact_keys(f"say {text} now")


def test_the_column_to_sort_by_in_a_command_is_no_secret() -> None:
    assert redact_tree({"command": ["sort", "--key", "2,2n"]}) == {"command": ["sort", "--key", "2,2n"]}


def test_what_follows_a_flag_in_a_list_is_a_secret() -> None:
    command = ["serve", "--password", SECRET, "--port", "80"]
    assert redact_tree({"command": command}) == {"command": ["serve", "--password", REDACTED, "--port", "80"]}
    assert redact_text(f"command: [serve, --password, {SECRET}] # {{}}\n") == f"command: [serve, --password, {REDACTED}] # {{}}\n"


def test_a_reference_to_the_environment_is_not_a_secret() -> None:
    assert redact_tree({"api_key": "${oc.env:OPENAI_API_KEY}"}) == {"api_key": "${oc.env:OPENAI_API_KEY}"}


@given(st.text(max_size=80))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_values(text)
    assert redact_values(once) == once


PLANTED = {
    "Slack webhook": "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/{}",
    "Discord webhook": "https://discord.com/api/webhooks/123456789012345678/{}",
    "Feishu webhook": "https://open.feishu.cn/open-apis/bot/v2/hook/{}",
    "Telegram bot": "https://api.telegram.org/bot123456789:{}/sendMessage",
    "WeCom webhook": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}",
    "DingTalk": "https://oapi.dingtalk.com/robot/send?access_token={}",
    "query": "http://host/v1?api_key={}&limit=3",
    "second argument": "http://host/v1?limit=3&token={}",
    "signed address": "https://x.blob.core.windows.net/c?sv=2024&sig={}",
    "redis without a user": "redis://:{}@host:6379/0",
    "a password with / and @": "https://user:p@ss/{}/w0rd@host/path",
    "a password with : and #": "amqp://user:a:{}@host",
    "Sentry": "https://0123456789abcdef{}@o1.ingest.sentry.io/2",
    "Azure": "DefaultEndpointsProtocol=https;AccountName=me;AccountKey={}==;EndpointSuffix=x",
    "libpq": "host=h dbname=d user=u password={}",
    "Stripe": "sk_live_{}",
    "GitHub": "ghp_{}",
    "Hugging Face": "hf_{}",
    "GitLab": "glpat-{}",
    "Groq": "gsk_{}",
    "SendGrid": "SG.{0}.{0}",
    "an option": "serve --password {}",
    "an option with =": "serve --token={} --port 80",
    "a variable in one word": "PGPASSWORD={} psql",
    "sshpass": "SSHPASS={} ssh host",
    "curl": "curl -u me:{} http://host",
    "a dict in an error": "bad request: {{'api_key': '{}', 'limit': 3}}",
    "JSON in an error": '{{"client_secret": "{}"}}',
    "Cookie": "curl -H 'Cookie: session={}' http://host",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_secret_of_each_kind_is_removed(name: str) -> None:
    secret = "Zq7Kx9Lm2Pv4Rt8Ws3Ny"
    kept = redact_values(PLANTED[name].format(secret))
    assert secret not in kept
    assert "p@ss" not in kept
    assert "w0rd" not in kept


@pytest.mark.parametrize(
    "key", ["slack_webhook", "webhook_url", "WEBHOOK", "dsn", "SENTRY_DSN", "db_pass", "PGPASSWORD", "passcode"]
)
def test_further_names_of_secrets(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize("key", ["val_pass_n", "pass_rate", "passage", "bypass", "compass", "passes", "dsname", "hook"])
def test_names_that_only_sound_alike(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    "text",
    [
        "http://host:8000/path@2x/b@c",
        "http://localhost:11434/v1",
        "git@github.com:org/repo.git",
        "ssh://git@host:22/repo",
        "http://host/search?q=a:b@c&page=2&token_count=512",
        "https://host/list?key=name&sort=asc&max_tokens=512",
        "docker run -u 1000:1000 -p 80:80 --user root:root image",
        "key: value",
        "'key': 'a plain value'",
        "{'answer': 'Basic algebra', 'tokenizer': 'some/tokenizer-name'}",
        "Basic arithmetic is needed",
        "https://hooks.slack.com/docs",
        "--set model.path=./model --max-tokens=512 --auth=none --token=auto",
        "password=${oc.env:PASSWORD}",
        "reward pass@4=0.5 and pass_n=4",
        "if password == other:",
    ],
)
def test_further_texts_stay_as_they_are(text: str) -> None:
    assert redact_values(text) == text


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("serve --token hunter --port 80", f"serve --token {REDACTED} --port 80"),
        ("API_TOKEN=hunter serve --max-tokens 512", f"API_TOKEN={REDACTED} serve --max-tokens 512"),
        ("serve --token ${oc.env:TOKEN}", "serve --token ${oc.env:TOKEN}"),
    ],
)
def test_in_a_command_an_ordinary_word_may_be_a_secret(command: str, kept: str) -> None:
    assert redact_tree({"services": {"web": {"command": command}}}) == {"services": {"web": {"command": kept}}}
    assert redact_text(f"a:\n  command: {command}  # mine\n") == f"a:\n  command: {kept}  # mine\n"


def test_a_password_is_removed_where_what_follows_is_not_an_address() -> None:
    assert redact_values("redis://:hunter2@h, and more") == f"redis://{REDACTED}@h, and more"


def test_what_aliases_repeat_is_looked_at_once() -> None:
    levels = "".join(f"l{number}: &l{number} [{', '.join([f'*l{number - 1}'] * 9)}]\n" for number in range(1, 30))
    assert redact_text(f"l0: &l0 {{token: {SECRET}}}\n{levels}").startswith(f"l0: &l0 {{token: {REDACTED}}}\n")
