"""What `runs` shows in the admin: a module a kind of page."""

from runs.notice_admin import AlertSilenceAdmin, RunNoticeAdmin
from runs.token_admin import ApiTokenAdmin

__all__ = ["AlertSilenceAdmin", "ApiTokenAdmin", "RunNoticeAdmin"]
