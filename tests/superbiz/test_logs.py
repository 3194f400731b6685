"""What the logs do not hold."""

import logging
import logging.config

import pytest

from superbiz.logs import logging_config

TOKEN = "abcDEF0123-_abcDEF0123-_abcDEF0123-_abcDEF"


@pytest.mark.parametrize(
    "told", [f"Forbidden (CSRF token missing.): /sign-in/{TOKEN}/", f'"GET /sign-in/{TOKEN}/ HTTP/1.1" 200']
)
def test_no_log_keeps_a_sign_in_link(told: str) -> None:
    config = logging_config(process="web", debug=False)["formatters"]["logfmt"]
    made = config.pop("()")(**config)
    record = logging.LogRecord("django.security.csrf", logging.WARNING, __file__, 1, told, (), None)
    record.request = f"<ASGIRequest: POST '/sign-in/{TOKEN}/'>"
    line = made.format(record)
    assert TOKEN not in line
    assert line.count("/sign-in/…") == 2
