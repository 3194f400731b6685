"""The web process: `python -m superbiz.web` serves `superbiz.asgi` on 127.0.0.1:PORT."""

import gc

import uvicorn

from superbiz.env import load_env_or_exit


def main() -> None:
    env = load_env_or_exit()
    from superbiz.asgi import application
    from superbiz.connections import Connection

    # What is loaded stays. A full collection would look through all of it, with every request waiting.
    gc.collect()
    gc.freeze()
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=env.port,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        # Served under a name of its own, the process stands behind a reverse proxy on this machine, whose
        # X-Forwarded-For tells the caller's address (FORWARDED_ALLOW_IPS names proxies elsewhere). Served to this
        # machine alone there is none, and whoever sends the header only wants to be somebody else.
        proxy_headers=not env.loopback_only,
        # Open event streams would keep the server from stopping; their readers reconnect and resume.
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    main()
