"""The project's settings on servers of the test run's own.

Read in every process of a run: first by the one that starts the servers (see `conftest.py`), then by xdist's workers,
which inherit its environment. A developer's own SuperBiz settings stay outside, except `DATABASE_URL` and `REDIS_URL`,
which name servers to test against (the database user must be a superuser and may create databases).
"""

import os
import tempfile
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from superbiz.env import INTERNAL_NAMES, setting_names
from superbiz.places import Places

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def _with_redis_db(url: str, number: int) -> str:
    address, _, query = url.partition("?")
    return f"{address}?{urlencode({**dict(parse_qsl(query)), 'db': str(number)})}"


if not _WORKER:
    for _name in {*setting_names(), *INTERNAL_NAMES} - {"DATABASE_URL", "REDIS_URL", "SUPERBIZ_CI"}:
        os.environ.pop(_name, None)
    os.environ["SUPERBIZ_VAR"] = tempfile.mkdtemp(prefix="superbiz-tests-")
    PLACES_OF_RUN = Places(Path(os.environ["SUPERBIZ_VAR"]))
    STARTS_POSTGRES, STARTS_VALKEY = not os.environ.get("DATABASE_URL"), not os.environ.get("REDIS_URL")
    if STARTS_POSTGRES:
        os.environ["DATABASE_URL"] = PLACES_OF_RUN.database_url()
    if STARTS_VALKEY:
        os.environ["REDIS_URL"] = PLACES_OF_RUN.redis_url()
    # Tests may hold many connections at once, as the web process does.
    os.environ["SUPERBIZ_PROCESS"] = "web"
else:
    # gw0 uses database 1, gw1 database 2, …
    os.environ["REDIS_URL"] = _with_redis_db(os.environ["REDIS_URL"], 1 + int(_WORKER.removeprefix("gw")) % 15)

from superbiz.settings import *  # noqa: E402, F403
from superbiz.settings import DATABASES  # noqa: E402

DATABASES["default"]["ENGINE"] = "tests.postgres"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
