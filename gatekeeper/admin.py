"""Rules in the admin: pages of their own (`gatekeeper.views`) at the addresses that Django's admin gives its models."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from gatekeeper import views
from gatekeeper.models import Rule, RuleProposal, RuleSet


class Steered(admin.ModelAdmin):  # type: ignore[type-arg]
    """No form of Django's own: whatever changes goes through a proposal, and makes a rule set."""

    actions = None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return views.may_see(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


@admin.register(Rule)
class RuleAdmin(Steered):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return views.rule_list(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return views.rule_page(request, unquote(object_id))


@admin.register(RuleProposal)
class RuleProposalAdmin(Steered):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return views.proposal_list(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return views.proposal_page(request, object_id)


@admin.register(RuleSet)
class RuleSetAdmin(Steered):
    """A set's own address is by its number, which runs name; it never changes."""

    def get_urls(self) -> list[URLPattern]:
        pages = [
            path(address, self.admin_site.admin_view(view), name=f"gatekeeper_ruleset_{name}")
            for name, address, view in (
                ("compare", "compare/", views.compare_sets),
                ("page", "number/<int:number>/", views.set_page),
                ("restore", "number/<int:number>/restore/", views.restore),
            )
        ]
        return [*pages, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return views.set_list(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return views.set_of_row(request, object_id)
