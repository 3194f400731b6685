"""The web process: `python -m superbiz.web` serves `superbiz.asgi` on 127.0.0.1:PORT."""

import uvicorn

from superbiz.env import load_env_or_exit


def main() -> None:
    env = load_env_or_exit()
    uvicorn.run(
        "superbiz.asgi:application",
        host="127.0.0.1",
        port=env.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        # Open event streams would keep the server from stopping; their readers reconnect and resume.
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    main()
