"""Django's settings, all derived from the environment (`superbiz.env`)."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _
from psycopg.conninfo import conninfo_to_dict

from superbiz import places
from superbiz.env import BASE_DIR, LOOPBACK_HOSTS, exit_with, load_env_or_exit
from superbiz.logs import configure_structlog, logging_config

SUPERBIZ = load_env_or_exit()
PLACES = places.Places(SUPERBIZ.var)

DEBUG = SUPERBIZ.debug
try:
    SECRET_KEY = SUPERBIZ.secret_key.get_secret_value() if SUPERBIZ.secret_key else places.secret_key(SUPERBIZ.var)
except OSError as error:
    exit_with(places.unwritable(SUPERBIZ.var, error))
if places.SHARED_METRICS in os.environ:
    # prometheus_client opens files in it and makes no folder.
    Path(os.environ[places.SHARED_METRICS]).mkdir(parents=True, exist_ok=True)
# Loopback is always answered: `up` asks /readyz there, whatever name people use from outside.
ALLOWED_HOSTS = list(dict.fromkeys([*SUPERBIZ.allowed_hosts, *LOOPBACK_HOSTS]))
BEHIND_TLS = not DEBUG and not SUPERBIZ.loopback_only

INSTALLED_APPS = [
    "superbiz.apps.SuperbizConfig",
    "audit",
    "runs",
    "gatekeeper",
    "prompts",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "pgtrigger",
    "template_partials",
    "django_htmx",
    "csp",
    "ninja",
    "superbiz.apps.SignInsConfig",
]

MIDDLEWARE = [
    "superbiz.api.json_errors",
    "django.middleware.security.SecurityMiddleware",
    "superbiz.middleware.no_control_characters",
    "superbiz.middleware.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "superbiz.middleware.one_thread",
]

ROOT_URLCONF = "superbiz.urls"
ASGI_APPLICATION = "superbiz.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# --- PostgreSQL -------------------------------------------------------------------------------------------------

# The connection budget: the most that one process of each kind holds open. One web, one worker, one beat and a few
# commands side by side come to about 50, well under the embedded server's max_connections of 100.
CONNECTION_BUDGET = {"web": 20, "worker": 16, "beat": 2, "command": 4}
# How many of them ORM work of the process's event loop may use at once (`runs.orm`).
ORM_THREADS = {"web": 6, "worker": 12, "beat": 1, "command": 3}[SUPERBIZ.process]


def _database(url: str, *, pool_max: int) -> dict[str, Any]:
    """Django's database entry for a libpq address, whatever form it has (TCP, socket folder, extra parameters)."""
    parts: dict[str, Any] = conninfo_to_dict(url)
    options = {key: value for key, value in parts.items() if key not in {"dbname", "user", "password", "host", "port"}}
    # JIT compilation costs more than it saves on short statements.
    options["options"] = f"{options.get('options', '')} -c jit=off".strip()
    # Who waits for a connection and the pool's tries to make one give up after as long: the pauses between tries
    # double, and with the library's five minutes a server that is back would be left alone for as long as it was away.
    options["pool"] = {"min_size": 1, "max_size": pool_max, "timeout": 10, "reconnect_timeout": 10, "max_idle": 120}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.get("dbname", ""),
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
        "CONN_MAX_AGE": 0,
        "OPTIONS": options,
    }


DATABASES = {
    "default": _database(SUPERBIZ.database_url or PLACES.database_url(), pool_max=CONNECTION_BUDGET[SUPERBIZ.process]),
}

# --- Redis or Valkey: cache and broker --------------------------------------------------------------------------

REDIS_URL = SUPERBIZ.redis_url or PLACES.redis_url()
REDIS_CONNECT_TIMEOUT_S = 1.0

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "superbiz",
        "OPTIONS": {"socket_connect_timeout": REDIS_CONNECT_TIMEOUT_S, "socket_timeout": 5.0},
    },
    # For what each process may know for a few seconds by itself: no page waits for Redis.
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "superbiz"},
}


def _broker_url(redis_url: str) -> str:
    """kombu's spelling of a redis-py address: sockets are `redis+socket://PATH?virtual_host=DB` there."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return f"redis+socket://{parts.path}?{urlencode({'virtual_host': query.pop('db', '0'), **query})}"


CELERY_BROKER_URL = _broker_url(REDIS_URL)
CELERY_RESULT_BACKEND = None
# There are no results; without this Celery makes its empty backend anew in each thread, and each request has one.
CELERY_RESULT_BACKEND_THREAD_SAFE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
# A message is only a hint that a run waits: the run's row is the truth, and the reaper sends lost hints again. So
# messages are acknowledged as they are taken, and none are put back when a connection is lost (see superbiz.celery).
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_DEFAULT_QUEUE = "superbiz"
CELERY_TASK_STORE_ERRORS_EVEN_IF_IGNORED = False
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = SUPERBIZ.worker_concurrency
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BROKER_CONNECTION_TIMEOUT = REDIS_CONNECT_TIMEOUT_S
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Longer than any run may take, so that no message is handed out twice while its run still works.
    "visibility_timeout": max(3600, 2 * SUPERBIZ.run_deadline_s),
    "socket_connect_timeout": REDIS_CONNECT_TIMEOUT_S,
    "socket_timeout": 2.0,
    # A sender gives up at once when the broker is away; the scan that the worker runs finds its work later.
    # (The worker's own reconnecting is CELERY_BROKER_CONNECTION_MAX_RETRIES.)
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.1,
}
CELERY_BEAT_SCHEDULE = {
    "reap": {"task": "runs.tasks.reap", "schedule": 5.0, "options": {"expires": 5.0}},
}
CELERY_TIMEZONE = "UTC"

# --- The agent --------------------------------------------------------------------------------------------------

# Told of every event of every run, in this order. Imported by dotted path, so that `runs` needs no `audit`.
RUN_OBSERVERS = ["audit.recorder.LedgerRecorder", "runs.live.RunChanged"]

# Incidents with a recording of their evidence, on which a prompt can be rehearsed.
BUNDLED_INCIDENTS = BASE_DIR / "eval" / "incidents"

ALERT_IGNORE_NAMES = SUPERBIZ.alert_ignore_names

# --- Language and time ------------------------------------------------------------------------------------------

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "superbiz.formats"

# --- Static files -----------------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Files are served from where they lie: there is no build step and no collectstatic.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# --- Security ---------------------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "superbiz.backends.OneQueryBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# A name that failed so often from one address is locked out there for a while, on every page that takes passwords.
# Counted in PostgreSQL, so that a restart of the cache forgives nothing; tries while locked out do not prolong it, so
# that nobody can keep somebody out who shares their address. Which address: that of the connection, or the one that
# the reverse proxy names (see superbiz.web).
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_LOCKOUT_CALLABLE = "superbiz.signin.locked_out"
AXES_VERBOSE = False
# Our own pages, read-only (superbiz.signin_admin).
AXES_ENABLE_ADMIN = False
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "sign_in"

# Browsers take a cookie of this prefix only from this host itself, over HTTPS and for all of its paths.
COOKIE_PREFIX = "__Host-" if BEHIND_TLS else ""
SESSION_COOKIE_NAME = f"{COOKIE_PREFIX}superbiz_session"
SESSION_COOKIE_AGE = 7 * 24 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_NAME = f"{COOKIE_PREFIX}superbiz_csrf"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_AGE = SESSION_COOKIE_AGE
CSRF_COOKIE_SECURE = BEHIND_TLS

SECURE_SSL_REDIRECT = BEHIND_TLS
# Machines inside the network (Alertmanager, probes, scrapers) may speak plain HTTP to the process itself.
SECURE_REDIRECT_EXEMPT = [r"^api/", r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if BEHIND_TLS else 0
# Nothing here is meant for other sites to open, frame or read.
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
# Sub-domains and browsers' preload lists belong to the owner of the whole domain, not to one service on it.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "object-src": [NONE],
        "frame-ancestors": [NONE],
    }
}

# --- Logging ----------------------------------------------------------------------------------------------------

configure_structlog()
LOGGING = logging_config(process=SUPERBIZ.process, debug=DEBUG)
