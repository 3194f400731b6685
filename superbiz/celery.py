"""The Celery application: `celery -A superbiz worker|beat`."""

import os

from celery import Celery
from celery.signals import celeryd_init, setup_logging
from kombu.transport.redis import QoS

from superbiz.env import ConfigurationError, exit_with, load_env_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "superbiz.settings")
load_env_or_exit()

# On a lost connection kombu would try to put unacknowledged messages back over that very connection, and the error
# of that ends the worker. Nothing is lost without it: the reaper sends again what no worker has claimed.
QoS.restore_at_shutdown = False

app = Celery("superbiz")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_djangos_logging(**_kwargs: object) -> None:
    """A receiver of this signal is what tells Celery to leave logging to Django's `LOGGING`."""


@celeryd_init.connect
def _check_what_runs_need(**_kwargs: object) -> None:
    """A worker whose every run would fail, or leave no record, does not start."""
    from runs.observers import observers
    from superbiz.preflight import check_agent

    try:
        check_agent(load_env_or_exit())
        observers()
    except ConfigurationError as error:
        exit_with(error)
    except Exception as error:
        # Celery logs what a receiver raises and goes on.
        raise SystemExit("superbiz: the observers of RUN_OBSERVERS cannot be loaded.") from error
