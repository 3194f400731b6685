"""The admin's page on which people change their own password; wrong old ones count as wrong passwords do elsewhere."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.forms import AdminPasswordChangeForm
from django.contrib.auth import authenticate
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator


class CountedPasswordForm(AdminPasswordChangeForm):
    """Asks the sign-in's own backends, which lock a name out after too many wrong passwords."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        given: str = self.cleaned_data["old_password"]
        name = self.user.get_username()
        if not self.user.has_usable_password() or authenticate(self.request, username=name, password=given) is None:
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return given


@method_decorator(login_required, "dispatch")
class ChangePassword(PasswordChangeView):
    form_class = CountedPasswordForm
    success_url = reverse_lazy("admin:password_change_done")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), **admin.site.each_context(self.request)}


change_password = admin.site.admin_view(ChangePassword.as_view(), cacheable=True)
