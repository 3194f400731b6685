"""Sign-ins in the admin: who came in, who failed to, and who is locked out."""

from typing import Any

from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery, Sum
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from superbiz.read_only_admin import ReadOnlyAdmin


class _SignIns(ReadOnlyAdmin):
    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        # An address that is none is an error of the database; the search looks for addresses.
        return not lookup.startswith("ip_address") and super().lookup_allowed(lookup, value, request)


@admin.register(AccessAttempt)
class AttemptAdmin(_SignIns):
    """Failures since the last success, by name and address. They lapse by themselves; `unlock` forgets them now."""

    list_display = ("username", "ip_address", "failures_since_start", "locked_out", "attempt_time", "path_info")
    search_fields = ("username", "ip_address")
    fields = (
        *("username", "ip_address", "failures_since_start", "locked_out", "attempt_time"),
        *("path_info", "user_agent"),
    )
    ordering = ("-attempt_time",)
    actions = ("unlock",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessAttempt]:
        """With `failures`: those of the same name and address by whatever browser, which are what locks out."""
        same = AccessAttempt.objects.filter(username=OuterRef("username"), ip_address=OuterRef("ip_address"))
        total = same.order_by().values("username").annotate(total=Sum("failures_since_start")).values("total")
        return super().get_queryset(request).annotate(failures=Subquery(total))

    @admin.display(boolean=True, description=gettext_lazy("locked out"))
    def locked_out(self, attempt: Any) -> bool:
        return bool(attempt.failures >= settings.AXES_FAILURE_LIMIT)

    def has_unlock_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("axes.delete_accessattempt")

    @admin.action(permissions=["unlock"], description=gettext_lazy("Unlock: forget these failures"))
    def unlock(self, request: HttpRequest, queryset: QuerySet[AccessAttempt]) -> None:
        for attempt in queryset:
            self.log_change(request, attempt, f"Unlocked {attempt.username} from {attempt.ip_address}.")
        count, _by_model = queryset.delete()
        messages.success(request, _("Forgotten: %(count)d.") % {"count": count})


@admin.register(AccessLog)
class SignInAdmin(_SignIns):
    list_display = ("username", "ip_address", "attempt_time", "logout_time", "path_info")
    search_fields = ("username", "ip_address")
    fields = ("username", "ip_address", "attempt_time", "logout_time", "path_info", "user_agent")
    ordering = ("-attempt_time",)
