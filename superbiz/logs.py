"""One logging set-up for every process: key=value lines on stderr."""

import logging
import re
from typing import Any

import structlog

_SIGN_IN_LINK = re.compile(r"(/sign-in/)[A-Za-z0-9_-]{16,}")
_SHARED_PROCESSORS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
]


def _printable_keys(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Libraries may log any key: logfmt refuses white space in one, and uvicorn repeats its message in colour."""
    return {"_".join(str(key).split()) or "_": value for key, value in event.items() if key != "color_message"}


def _without_sign_in_links(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A link that was refused for another reason still signs in."""
    return {key: _SIGN_IN_LINK.sub(r"\1…", value) if isinstance(value, str) else value for key, value in event.items()}


def clients_mistakes_in_one_line(record: logging.LogRecord) -> bool:
    """A filter that passes all: what Django answers with 4xx is no fault of ours, so its traceback helps nobody."""
    if record.name.startswith(("django.request", "django.security")) and getattr(record, "status_code", 500) < 500:
        record.exc_info = record.exc_text = None
    return True


def configure_structlog() -> None:
    """Route structlog's loggers through the standard library's, so that one formatter renders all."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *_SHARED_PROCESSORS,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logging_config(*, process: str, debug: bool) -> dict[str, Any]:
    """The `dictConfig` of a process: ours at INFO (DEBUG when debugging), libraries at WARNING.

    A one-off command shows warnings only: its stdout and stderr belong to the person who typed it.
    """
    command = process == "command"
    ours = "DEBUG" if debug else "WARNING" if command else "INFO"
    renderer = structlog.processors.LogfmtRenderer(
        key_order=["timestamp", "level", "logger", "event"], drop_missing=True, bool_as_flag=False
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "logfmt": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED_PROCESSORS,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _printable_keys,
                    _without_sign_in_links,
                    renderer,
                ],
            }
        },
        # The handler has a level too: some libraries set their own loggers to DEBUG when they are imported.
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "logfmt",
                "level": ours,
                "filters": [clients_mistakes_in_one_line],
            }
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            **{
                name: {"level": ours}
                for name in ("superbiz", "audit", "runs", "gatekeeper", "prompts", "uvicorn.error")
            },
            # Each failed try of the pool. A command tells its end in one line.
            "psycopg.pool": {"level": "ERROR" if command else "WARNING"},
        },
    }
