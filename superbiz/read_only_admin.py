"""What the admin shows and nobody changes there."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from runs.pages.lookups import is_plain


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return is_plain(lookup) and super().lookup_allowed(lookup, value, request)

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        return False
