"""The ASGI application: `uvicorn superbiz.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

from superbiz.env import load_env_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "superbiz.settings")
load_env_or_exit()

application = get_asgi_application()
