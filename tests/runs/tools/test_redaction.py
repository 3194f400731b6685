"""What is masked, and, as important, what is not."""

import json
import time

import pytest

from runs.tools.redaction import MASK, clean, clean_json

AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"

MASKED = [
    ("a password in a URL", "postgresql://app:s3cret@db:5432/shop", f"postgresql://app:{MASK}@db:5432/shop"),
    ("without a user", "redis://:s3cret@cache:6379/0", f"redis://:{MASK}@cache:6379/0"),
    ("with signs in it", "amqp://u:p@ss/w0rd@mq:5672/", f"amqp://u:{MASK}@mq:5672/"),
    ("a token as user", "https://ghp0123456789abcdefgh@github.example/x", f"https://{MASK}@github.example/x"),
    (
        "a JDBC parameter",
        "jdbc:postgresql://db:5432/shop?user=app&password=hunter2&ssl=true",
        f"jdbc:postgresql://db:5432/shop?user=app&password={MASK}&ssl=true",
    ),
    ("key=value", "login user=bob password=hunter2 from 10.0.0.1", f"login user=bob password={MASK} from 10.0.0.1"),
    ("in a list", "Config(user=bob, password=hunter2, ssl=on)", f"Config(user=bob, password={MASK}, ssl=on)"),
    ("last in a list", "Config(user=bob, password=hunter2)", f"Config(user=bob, password={MASK})"),
    ("with a comma in it", "password=a,b;c next", f"password={MASK} next"),
    ("an environment variable", "PGPASSWORD=hunter2 psql", f"PGPASSWORD={MASK} psql"),
    ("an upper-case one", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", f"AWS_SECRET_ACCESS_KEY={MASK}"),
    ("YAML", "db:\n  password: hunter2\n  port: 1", f"db:\n  password: {MASK}\n  port: 1"),
    ("quoted", "password='two words' x", f"password='{MASK}' x"),
    ("JSON", '{"password": "hunter2", "port": 1}', f'{{"password": "{MASK}", "port": 1}}'),
    ("JSON with a quote inside", r'{"password":"a\"b","x":1}', f'{{"password":"{MASK}","x":1}}'),
    ("JSON in JSON", r'{"log":"{\"token\":\"abc12345\",\"n\":1}"}', rf'{{"log":"{{\"token\":\"{MASK}\",\"n\":1}}"}}'),
    ("JSON cut off", '{"apiKey": "abc123def', f'{{"apiKey": "{MASK}"'),
    ("camel case", "accessToken=abcd1234efgh", f"accessToken={MASK}"),
    ("client secret", "client_secret=xyz-987", f"client_secret={MASK}"),
    ("a header", "Authorization: Bearer abc.def-123", f"Authorization: Bearer {MASK}"),
    ("a basic header", "authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {MASK}"),
    ("a header in JSON", '{"Authorization":"Bearer abc123"}', f'{{"Authorization":"Bearer {MASK}"}}'),
    ("a header of curl", "curl -H 'X-Api-Key: 0123456789ab'", f"curl -H 'X-Api-Key: {MASK}'"),
    ("a bearer token alone", "sent bearer 0123456789abcdef0123", f"sent bearer {MASK}"),
    ("a cookie", "Cookie: session=abc123; theme=dark", f"Cookie: {MASK}"),
    ("a flag", "mysqldump --password hunter2 shop", f"mysqldump --password {MASK} shop"),
    ("SQL", "ALTER USER app WITH PASSWORD 'hunter2'", f"ALTER USER app WITH PASSWORD {MASK}"),
    ("SQL of MySQL", "CREATE USER a IDENTIFIED BY 'hunter2'", f"CREATE USER a IDENTIFIED BY {MASK}"),
    ("a key in a URL", "GET /v1/x?key=AbC123456789xyz&q=1", f"GET /v1/x?key={MASK}&q=1"),
    ("a signed URL", "https://s3/x?X-Amz-Signature=ab12cd&y=1", f"https://s3/x?X-Amz-Signature={MASK}&y=1"),
    ("an AWS key", f"using {AWS_ID} for s3", f"using {MASK} for s3"),
    ("a JWT", f"claims of {JWT} expired", f"claims of {MASK} expired"),
    ("a private key", f"loaded {PEM} ok", "loaded [redacted private key] ok"),
    ("a private key cut off", PEM[:40], "[redacted private key]"),
    ("GitHub", "ghp_" + "a1" * 18, MASK),
    ("a model provider's key", "sk-proj-" + "a1" * 12, MASK),
    ("two in one line", "token=abcd1234 password=hunter2", f"token={MASK} password={MASK}"),
]

KEPT = [
    "token bucket of checkout-api is empty, 12 requests throttled",
    "password policy requires 12 characters",
    "password: must not be empty",
    'password authentication failed for user "app"',
    "FATAL: password authentication failed for user app",
    "invalid token: expired",
    "JSON parse error: unexpected token: '}' at line 3",
    "Unexpected token: <EOF>",
    "max_tokens=4096 prompt_tokens=812",
    "token_count: 57, tokens: 1024",
    "deployed 3f2a9c1d8e7b6a5f4e3d2c1b0a9f8e7d6c5b4a39 of main",
    "image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    'secret "db-credentials" not found in namespace shop',
    "password=null token=",
    "password=${DB_PASSWORD} token=<none>",
    "PWD=/home/app OLDPWD=/",
    "http://10.42.3.18:8080/api/v1/orders?page=2",
    "connect to kafka-1:9092,kafka-2:9092 failed",
    "mail from bob@example.org to ann@example.org",
    "basic authentication is disabled",
    "bearer authentication-required",
    "Authorization: denied for role viewer",
    "cache key=user:12 missed",
    "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7",
    "design of the signature dish",
    "HikariPool-1 - Connection is not available, request timed out after 30000ms",
    "checked out in 3 ms @ node-1 http://a/b",
    "普通日志 没有密码",
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in MASKED], ids=[case[0] for case in MASKED])
def test_a_secret_is_masked_and_the_rest_stays(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays_verbatim(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize("text", [case[1] for case in MASKED] + KEPT)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


def test_terminal_codes_go_and_characters_that_cannot_be_stored_are_replaced() -> None:
    assert clean("\x1b[31mERROR\x1b[0m \x1b]0;title\x07done") == "ERROR done"
    assert clean("a\0b\ud800c") == "a�b�c"


def test_a_secret_split_by_terminal_codes_is_still_found() -> None:
    assert clean("password\x1b[0m=hunter2") == f"password={MASK}"


def test_json_is_cleaned_in_every_corner() -> None:
    value = {"a": ["token=abcd1234", {"password": "hunter2", "n": 1}], "url": "redis://:x1@h", "none": None, "ok": True}
    cleaned = clean_json(value)
    assert cleaned == {
        "a": [f"token={MASK}", {"password": MASK, "n": 1}],
        "url": f"redis://:{MASK}@h",
        "none": None,
        "ok": True,
    }
    json.dumps(cleaned)


def test_long_lines_of_one_kind_of_sign_are_done_quickly_enough_to_finish() -> None:
    for text in ("a" * 50_000, "://" * 20_000, "password" * 10_000, '"' * 50_000, "token=" + "x," * 30_000):
        assert isinstance(clean(text), str)


@pytest.mark.parametrize(
    "stem",
    [
        "x://",
        "-sk-",
        "sk---a-",
        "-eyJaaaaaaaa",
        "cookie: ",
        "authorization=",
        "authorization=bearer ",
        "bearer ab",
        " ",
    ],
)
def test_what_looks_like_the_beginning_of_a_secret_everywhere_takes_a_moment_and_no_minutes(stem: str) -> None:
    text = "cookie" + stem * (150_000 // len(stem)) + " token"
    began = time.process_time()
    clean(text)
    assert time.process_time() - began < 5
