"""Whose address counts when a password is guessed: the caller's, whoever passes the request on."""

import re
from pathlib import Path

import httpx
import pytest

from tests.superbiz.instance import Instance, running, with_tables

HOST = "superbiz.example"
GUESSES = 5


def guess(instance: Instance, address: str, host: str) -> int:
    """One wrong password, as a reverse proxy passes it on for a caller at `address`; the answer's status."""
    headers = {"Host": host, "X-Forwarded-Proto": "https", "X-Forwarded-For": address}
    with httpx.Client(base_url=instance.url, headers=headers) as browser:
        form = browser.get("/sign-in/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)
        assert token, form.text
        cookies = "; ".join(line.partition(";")[0] for line in form.headers.get_list("set-cookie"))
        wish = {"csrfmiddlewaretoken": token[1], "username": "casey", "password": "guess"}
        # By hand: a cookie for HTTPS alone is not sent to a plain address.
        own = {"Cookie": cookies, "Referer": f"https://{host}/sign-in/"}
        return browser.post("/sign-in/", data=wish, headers=own).status_code


@pytest.mark.parametrize(("hosts", "elsewhere"), [(HOST, 200), ("", 429)], ids=["behind a proxy", "loopback only"])
def test_the_proxys_word_counts_where_there_is_a_proxy(tmp_path: Path, hosts: str, elsewhere: int) -> None:
    instance = with_tables(tmp_path)
    host = hosts or f"127.0.0.1:{instance.port}"
    with running(instance, SUPERBIZ_ALLOWED_HOSTS=hosts) as up:
        up.sign_in_link()
        answers = [guess(instance, "192.0.2.1", host) for _ in range(GUESSES)]
        assert answers == [200] * (GUESSES - 1) + [429]
        assert guess(instance, "192.0.2.2", host) == elsewhere
        # What the caller claims stands left of what the proxy adds.
        assert guess(instance, "192.0.2.3, 192.0.2.1", host) == 429
        headers = {"Host": host, "X-Forwarded-Proto": "https"}
        (cookie,) = httpx.get(f"{instance.url}/sign-in/", headers=headers).headers.get_list("set-cookie")
    # Bound to this host where there is HTTPS.
    parts = {part.strip() for part in cookie.split(";")}
    assert cookie.startswith("__Host-superbiz_csrf=" if hosts else "superbiz_csrf=")
    assert ("Secure" in parts) is bool(hosts)
    assert {"Path=/", "SameSite=Lax"} <= parts
