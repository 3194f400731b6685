"""Alerts in, over HTTP. Mounted under /api by `superbiz.api`. All need the scope alerts:write.

POST /alerts/alertmanager   a group of alerts; 202, at most one run
POST /alerts/grafana        the same from Grafana
POST /ai_ops                a diagnosis asked for by hand; 202 and one run, or 200 where nothing fires
"""

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Status

from runs import active_alerts, alertpayload, intake
from runs.access import ApiError, Caller, async_caller_auth, caller_auth
from runs.alertpayload import BadPayload, Notice
from runs.api import Shape, caller_of_view, run_url
from runs.equipment import sources_of
from runs.errors import ConfigurationError, ToolError, ToolFailed
from runs.intake import Received, Sender
from runs.models import Alert
from runs.models.run import Trigger
from runs.models.token import Scope
from runs.orm import run_in_orm
from runs.tools.registry import new_client

log = structlog.get_logger(__name__)
router = Router(tags=["alerts"], auth=caller_auth, by_alias=True)


class StartedRunShape(Shape):
    run_id: str
    session_id: str
    alert_name: str
    url: str


class ReceivedShape(Shape):
    """Counts of alerts, and the run that was started, if any."""

    accepted: int
    deduplicated: int
    resolved: int
    ignored: int
    runs: list[StartedRunShape]


class UnreadableShape(Shape):
    index: int
    message: str


class WebhookShape(ReceivedShape):
    """`unreadable` is there when some alerts of the body could not be read; the others were taken."""

    unreadable: list[UnreadableShape] | None = None


class AskedShape(ReceivedShape):
    """The run that was started, also by itself; `message` says why there is none."""

    run_id: str | None
    session_id: str | None
    alert_name: str | None
    url: str | None
    message: str | None


def _body(description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """What the docs page says of a body that is read leniently."""
    schema = {"type": "object", "required": required, "description": description, "properties": properties}
    return {"requestBody": {"required": bool(required), "content": {"application/json": {"schema": schema}}}}


_ALERTS = {"type": "array", "items": {"type": "object"}, "maxItems": alertpayload.MAX_ALERTS}
_GROUP = {
    "groupKey": {"type": "string"},
    "status": {"type": "string", "enum": ["firing", "resolved"]},
    "alerts": _ALERTS,
}
ALERTMANAGER_BODY = _body("Alertmanager webhook, version 4; all but `alerts` may be missing.", _GROUP, ["alerts"])
GRAFANA_BODY = _body("The webhook of Grafana's unified alerting; all but `alerts` may be missing.", _GROUP, ["alerts"])
AI_OPS_BODY = _body(
    "One alert, or several, the most severe of which is diagnosed. Without a body: what is active now at Alertmanager "
    "or Prometheus.",
    {"alert": {"type": "object"}, "alerts": _ALERTS},
    [],
)


def _started(request: HttpRequest, received: Received) -> list[StartedRunShape]:
    return [
        StartedRunShape(
            run_id=run.run_id,
            session_id=run.session_id,
            alert_name=run.alert_name,
            url=request.build_absolute_uri(run_url(run.run_id)),
        )
        for run in received.runs
    ]


def _counts(received: Received) -> dict[str, int]:
    return {name: getattr(received, name) for name in ("accepted", "deduplicated", "resolved", "ignored")}


def _refusal(error: BadPayload) -> ApiError:
    return ApiError(error.status, error.code, error.message)


def _webhook(request: HttpRequest, source: str) -> Any:
    caller = caller_of_view(request, Scope.ALERTS_WRITE)
    try:
        notice, unreadable = alertpayload.read_webhook(alertpayload.read_json(request.body))
    except BadPayload as error:
        raise _refusal(error) from error
    received = intake.receive(notice, Sender(source=source, user_id=caller.user_id, token_id=caller.token_id))
    for each in unreadable:
        log.warning("alert_unreadable", source=source, index=each.index, reason=each.message)
    told = [UnreadableShape(index=each.index, message=each.message) for each in unreadable]
    return Status(202, WebhookShape(**_counts(received), runs=_started(request, received), unreadable=told or None))


@router.post(
    "/alerts/alertmanager",
    response={202: WebhookShape},
    exclude_none=True,
    summary="Alertmanager's webhook",
    openapi_extra=ALERTMANAGER_BODY,
)
def alertmanager(request: HttpRequest) -> Any:
    """One group a body; at most one run a group. A repeat inside the window joins its alert and starts none."""
    return _webhook(request, Alert.Source.ALERTMANAGER)


@router.post(
    "/alerts/grafana",
    response={202: WebhookShape},
    exclude_none=True,
    summary="Grafana's webhook",
    openapi_extra=GRAFANA_BODY,
)
def grafana(request: HttpRequest) -> Any:
    """As Alertmanager's. What Grafana measured and its links to dashboard and panel are kept as annotations."""
    return _webhook(request, Alert.Source.GRAFANA)


# ---- by hand --------------------------------------------------------------------------------------------------


@router.post(
    "/ai_ops",
    auth=async_caller_auth,
    response={200: AskedShape, 202: AskedShape},
    summary="Diagnose an alert, or what is active now",
    openapi_extra=AI_OPS_BODY,
)
async def ai_ops(request: HttpRequest) -> Any:
    """Starts one run, about the most severe alert, also inside the window. 200 without a run where nothing fires.

    502 or 503 where Alertmanager or Prometheus cannot tell what is active.
    """
    caller: Caller = await run_in_orm(caller_of_view, request, Scope.ALERTS_WRITE)
    try:
        notice = _notice_of(request.body)
    except BadPayload as error:
        raise _refusal(error) from error
    asked = notice if notice is not None else await _active()
    # Who asks by hand wants a run, not the last one.
    sender = Sender(
        source=Alert.Source.API,
        trigger=Trigger.MANUAL,
        user_id=caller.user_id,
        token_id=caller.token_id,
        window=timedelta(0),
    )
    received = await run_in_orm(intake.receive, asked, sender)
    runs = _started(request, received)
    told = runs[0].model_dump() if runs else dict.fromkeys(StartedRunShape.model_fields)
    message = None if runs else _why_none(asked, received, given=notice is not None)
    shape = AskedShape.model_validate({**_counts(received), **told, "runs": runs, "message": message})
    return Status(202 if runs else 200, shape)


def _notice_of(body: bytes) -> Notice | None:
    """None: the body names no alert. Raises `BadPayload`."""
    value = alertpayload.read_json(body) if body.strip() else {}
    if value == {}:
        return None
    if isinstance(value, dict) and isinstance(value.get("alert"), dict) and "alerts" not in value:
        return alertpayload.read_notice({"alerts": [value["alert"]]})
    if isinstance(value, dict) and value.get("alerts") and "alert" not in value:
        return alertpayload.read_notice(value)
    raise BadPayload(422, "BAD_BODY", "The body must hold one 'alert', or a list of 'alerts', or be empty.")


async def _active() -> Notice:
    try:
        return await active_alerts.active_alerts(sources_of(settings.SUPERBIZ, new_client))
    except active_alerts.NoSource as error:
        raise ApiError(503, "NO_ALERT_SOURCE", error.safe_message) from error
    except ConfigurationError as error:
        raise ApiError(503, "CONFIGURATION", "The recorded evidence cannot be read.") from error
    except ToolError as error:
        passing = isinstance(error, ToolFailed) and error.transient
        raise ApiError(503 if passing else 502, "ALERT_SOURCE_FAILED", error.safe_message) from error


def _why_none(asked: Notice, received: Received, *, given: bool) -> str:
    if not asked.alerts:
        return "No alert is active now: there is nothing to diagnose."
    if received.ignored == len(asked.alerts):
        return "All of these alerts are ignored: they only show that alerting works (SUPERBIZ_ALERT_IGNORE_NAMES)."
    return "None of these alerts is firing." if given else "No alert is active now: there is nothing to diagnose."
