"""Secrets in alerts and in what tools return reach no model, no table, no log file and no report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.outside import alert_body, evidence_of
from tests.servers.openai_compatible import Brain, OpenAICompatibleServer
from tests.superbiz.instance import with_tables

SLUG = "pool-exhausted"
IN_LOGS = {
    "password": "hunter2-Log-4711",
    "bearer": "b3arerLogValue0123456789abcdef",
    "url": "pgLogPassw0rd99",
    "key": "AKIAQ7LOGKEY12345678",
}
IN_ALERT = {"token": "t0kenOfAlert99xyz", "url": "alertPassw0rd77", "secret": "s3cretLabel55abc"}
LEAK = (
    f" password={IN_LOGS['password']} Authorization: Bearer {IN_LOGS['bearer']}"
    f" postgresql://checkout:{IN_LOGS['url']}@db/checkout {IN_LOGS['key']}"
)
# Every row of every table, as text; the knowledge that came with the product may be left out.
ALL_ROWS = """
import json
from django.apps import apps
rows = {model._meta.db_table: [list(map(str, row)) for row in model._default_manager.values_list()]
        for model in apps.get_models()}
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundled incident whose log lines and metric labels carry secrets, and an alert that does."""
    folder = tmp_path_factory.mktemp("leaky")
    evidence = folder / "evidence"
    shutil.copytree(evidence_of(SLUG), evidence)
    for path in evidence.rglob("*.log"):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"{line}{LEAK}\n" for line in lines), encoding="utf-8")
    alerts = json.loads((evidence / "alerts.json").read_text(encoding="utf-8"))
    for alert in alerts:
        alert["annotations"]["description"] += LEAK
    (evidence / "alerts.json").write_text(json.dumps(alerts), encoding="utf-8")
    body = alert_body(SLUG)
    for alert in body["alerts"]:
        alert["annotations"]["description"] += f" token={IN_ALERT['token']}"
        alert["labels"]["dsn"] = f"mysql://orders:{IN_ALERT['url']}@db:3306/orders"
        alert["labels"]["secret"] = IN_ALERT["secret"]
        alert["generatorURL"] = f"http://prometheus:9090/graph?token={IN_ALERT['token']}"
    (folder / "alert.json").write_text(json.dumps(body), encoding="utf-8")
    return folder


def leaked(text: str) -> list[str]:
    return [name for secrets in (IN_LOGS, IN_ALERT) for name, secret in secrets.items() if secret in text]


@pytest.mark.parametrize("model", ["offline", "openai:test-model"])
def test_no_secret_of_an_alert_or_of_a_tool_leaves_its_place(leaky: Path, tmp_path: Path, model: str) -> None:
    instance = with_tables(tmp_path)
    with OpenAICompatibleServer(Brain()) as server:
        settings = {
            "SUPERBIZ_LLM": model,
            "SUPERBIZ_LLM_BASE_URL": server.base_url,
            "SUPERBIZ_LLM_API_KEY": "unused",
            "SUPERBIZ_RECORDED_EVIDENCE": str(leaky / "evidence"),
        }
        done = instance.manage("diagnose", str(leaky / "alert.json"), **settings)
        assert done.returncode in {0, 3}, done.stderr
        asked = json.dumps([question.body for question in server.requests])
    dumped = instance.manage("shell", "--no-imports", "-c", ALL_ROWS)
    assert dumped.returncode == 0, dumped.stderr
    tables: dict[str, list[Any]] = json.loads(dumped.stdout.splitlines()[-1])

    assert "[redacted]" in str(tables["tool_invocation"]), "the tools read what leaks"
    assert "[redacted]" in str(tables["alert"])
    assert {table: names for table, rows in tables.items() if (names := leaked(str(rows)))} == {}
    assert leaked(done.stdout + done.stderr) == []
    assert leaked(asked) == []
    assert bool(server.requests) is (model != "offline")
    logs = [path for path in instance.places.log.rglob("*") if path.is_file()]
    assert {path.name: names for path in logs if (names := leaked(path.read_text(errors="replace")))} == {}
