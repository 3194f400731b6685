"""Whatever a request holds, its answer is no crash: every view's parameters and headers, in tables."""

import base64
import io
import logging
from collections.abc import Callable

import pytest
from django.contrib import admin
from django.db.models import DateField
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import reverse

from superbiz.env import BASE_DIR
from superbiz.middleware import no_control_characters
from tests.audit.recording import finished_run
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


ODD = (
    *(
        "",
        "%00",
        "a%00b",
        "%FF%FE",
        "%ED%A0%80",
        "%E2%80%AE",
        "%0A",
        "'",
        "..%2f..",
        "-1",
        "1e5",
        "[]",
        "NaN",
        "%C2%B2",
    ),
    *("9" * 20, "9" * 5000, "A" * 3000),
    *map(
        cursor,
        (
            "garbage",
            "2026-01-01T00:00:00 naive",
            "0001-01-01T00:00:00+23:59 early",
            "9999-12-31T23:59:59-23:59 late",
            "0001-01-01T00:00:00+00:00 first",
            "9999-12-31T23:59:59+00:00 last",
            "2026-01-01T00:00:00+00:00 \0",
        ),
    ),
)
PARAMETERS = {
    "/": ("status", "outcome", "trigger", "q", "before", "id"),
    "/runs/watched/": ("id",),
    "/runs/compare/": ("a", "b"),
    "/chat/": ("ask", "q", "before"),
    "/alerts/": ("state", "severity", "run", "q", "before"),
    "/alerts/watched/": ("id",),
    "/knowledge/": ("q", "page"),
    "/runs/{run}/": ("event",),
    "/runs/{run}/live/": ("after",),
    "/runs/{run}/events/1/restricted/": ("event",),
    "/sign-in/": ("next",),
    "/api/runs": ("status", "outcome", "trigger", "alertName", "sessionId", "limit", "cursor"),
    "/api/runs/{run}/events": ("after",),
    "/api/diagnosis/{session}/trace": ("runId",),
    "/api/diagnosis/{session}/trace/reasoning": ("runId",),
    "/static/x": ("v",),
}
PATHS = (
    *("/api/runs/{odd}", "/api/runs/{odd}/events", "/api/diagnosis/{odd}/trace", "/runs/{odd}/", "/runs/{odd}/live/"),
    *("/api/diagnosis/{odd}/trace/reasoning?runId={odd}", "/runs/{run}/events/{odd}/restricted/", "/sign-in/{odd}/"),
    *("/chat/{odd}/", "/chat/{odd}/turns/{odd}/", "/alerts/{odd}/", "/knowledge/{odd}/", "/runs/{odd}/feedback/"),
    *("/sessions/{odd}/", "/runs/{odd}/report.md", "/runs/{odd}/trace.json", "/runs/{odd}/record/"),
    *("/static/{odd}", "/admin/{odd}", "/admin/audit/agentstep/{odd}/change/", "/{odd}"),
)
HEADERS: tuple[dict[str, str], ...] = (
    {"Cookie": r'superbiz_session="abcdefgh\000ijkl"'},
    {"Cookie": r'superbiz_session="\377\376abcdefgh"'},
    {"Cookie": r'superbiz_csrf="\000"; superbiz_session="\012"'},
    {"Cookie": "superbiz_session=" + "a" * 5000},
    {"HX-Request": "true", "HX-Current-URL": "http://[::1"},
    {"HX-Request": "true", "HX-Current-URL": "//["},
    {"HX-Request": "true", "HX-Current-URL": "http://testserver/%00", "HX-Current-URL-URI-AutoEncoded": "true"},
    {"HX-Request": "true", "HX-Target": "\xff", "HX-Triggering-Event": "{", "Triggering-Event": "{"},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer \xff\xfe"},
    {"Authorization": "Basic %00"},
    {"Accept-Language": "\xff" * 100},
    {"Last-Event-ID": "\xb2"},
    {"Last-Event-ID": "9" * 30},
    {"Host": "evil.example"},
    {"Host": "[::1"},
    {"Host": "127.0.0.1:99999"},
    {"If-Modified-Since": "x", "Range": "bytes=9-1"},
)
ADMIN_PARAMETERS = (
    "q",
    "o",
    "p",
    "e",
    "run_id",
    "id__exact",
    "event_type__exact",
    "legacy__exact",
    "at__year",
    "_to_field",
)
OK_OR_REFUSED = {200, 302, 400, 401, 403, 404, 405, 410, 422}


@pytest.fixture
def admin_client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(UserFactory.create(is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What the process's own handler has written since."""
    (handler,) = (handler for handler in logging.getLogger().handlers if handler.name == "stderr")
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    monkeypatch.setattr(handler, "stream", written)
    return lambda: written.getvalue().splitlines()


@pytest.mark.parametrize("path", PARAMETERS)
def test_no_parameter_is_a_crash(admin_client: Client, path: str) -> None:
    run = finished_run()
    address = path.format(run=run.id, session=run.session_id)
    asked = {f"{address}?{name}={value}" for name in PARAMETERS[path] for value in ODD}
    answers = {url: admin_client.get(url).status_code for url in asked}
    assert {url: status for url, status in answers.items() if status not in OK_OR_REFUSED} == {}
    assert {status for url, status in answers.items() if "%00" in url} == {400}


def test_no_year_beyond_all_calendars_is_a_crash_in_any_list_of_the_admin(admin_client: Client) -> None:
    asked = [
        f"{reverse(f'admin:{model._meta.app_label}_{model._meta.model_name}_changelist')}?{field.name}__year={year}"
        for model in admin.site._registry
        for field in model._meta.fields
        if isinstance(field, DateField)
        for year in (0, -1, 99_999)
    ]
    assert len(asked) > 30
    answers = {url: admin_client.get(url).status_code for url in asked}
    assert {url: status for url, status in answers.items() if status not in OK_OR_REFUSED} == {}


@pytest.mark.parametrize("path", PATHS)
def test_no_path_is_a_crash(admin_client: Client, path: str) -> None:
    run = finished_run()
    asked = {path.format(odd=value, run=run.id) for value in ODD if value}
    answers = {url: admin_client.get(url).status_code for url in asked}
    assert {url: status for url, status in answers.items() if status not in OK_OR_REFUSED} == {}
    assert {status for url, status in answers.items() if "%00" in url} == {400}


@pytest.mark.parametrize("headers", HEADERS, ids=str)
def test_no_header_is_a_crash(headers: dict[str, str]) -> None:
    run = finished_run()
    for path in [*(path.format(run=run.id, session=run.session_id) for path in PARAMETERS), "/healthz", "/admin/"]:
        status = Client(raise_request_exception=False).get(path, headers=headers).status_code
        assert status in OK_OR_REFUSED, path


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_no_parameter_of_the_admin_is_a_crash(admin_client: Client, model: type) -> None:
    finished_run()
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"  # type: ignore[attr-defined]
    few = ("%00", "x", "-1", "9" * 20, "99.99", "A" * 3000)
    asked = [f"{base}?{name}={value}" for name in ADMIN_PARAMETERS for value in few]
    asked += [f"{base}{value}/change/" for value in ("%00", "9" * 20, "_00", "abc")]
    answers = {url: admin_client.get(url).status_code for url in asked}
    assert {url: status for url, status in answers.items() if status not in OK_OR_REFUSED} == {}


def test_cookies_with_control_characters_are_dropped_and_the_others_kept() -> None:
    seen: list[dict[str, str]] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(dict(request.COOKIES))
        return HttpResponse()

    request = RequestFactory().get("/", headers={"Cookie": r'superbiz_session="a\000b"; superbiz_csrf=abc; x="\012"'})
    no_control_characters(view)(request)
    assert seen == [{"superbiz_csrf": "abc"}]


@pytest.mark.parametrize(
    ("path", "headers", "logged"),
    [
        ("/?q=%00", {}, "holds a NUL"),
        ("/runs/new/?after=x", {}, "not a place in the list"),
        ("/runs/none/", {}, "Not Found: /runs/none/"),
        ("/", {"Host": "evil.example"}, "evil.example"),
        ("/api/runs/%00", {}, "holds a NUL"),
    ],
)
def test_a_clients_mistake_is_one_line_of_log(
    admin_client: Client, log_lines: Callable[[], list[str]], path: str, headers: dict[str, str], logged: str
) -> None:
    assert admin_client.get(path, headers=headers).status_code in {400, 404}
    (line,) = log_lines()
    assert logged in line
    assert "Traceback" not in line


def test_a_fault_of_ours_is_logged_with_its_traceback(
    admin_client: Client, log_lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("audit.views.runlist.read", crash)
    assert admin_client.get("/").status_code == 500
    assert "Traceback" in log_lines()[0]


@pytest.mark.parametrize(
    ("headers", "status", "length"),
    [
        ({}, 200, None),
        ({"Range": "bytes=2-5"}, 206, 4),
        ({"Range": "bytes=999999999-"}, 416, 0),
        ({"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}, 304, 0),
    ],
)
async def test_static_files_are_sent_whole_and_without_a_warning(
    headers: dict[str, str], status: int, length: int | None, recwarn: pytest.WarningsRecorder
) -> None:
    file = next((BASE_DIR / "static").rglob("*.css"))
    path = f"/static/{file.relative_to(BASE_DIR / 'static').as_posix()}"
    answer = await AsyncClient().get(path, headers=headers)
    assert answer.status_code == status
    assert not answer.streaming
    content = file.read_bytes()
    assert len(answer.content) == (len(content) if length is None else length)
    assert answer.content in content
    assert [str(warning.message) for warning in recwarn if "StreamingHttpResponse" in str(warning.message)] == []
    if status == 200:
        assert answer["Content-Type"].startswith("text/css")
    head = await AsyncClient().head(path)
    assert (head.status_code, head.content, head["Content-Length"]) == (200, b"", str(len(content)))
