"""The ASGI application: `uvicorn superbiz.asgi:application`."""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application

from superbiz.bodies import bounded
from superbiz.env import load_env_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "superbiz.settings")
load_env_or_exit()

application = bounded(get_asgi_application(), settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
