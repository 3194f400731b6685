"""The rules' metadata, and the numbered rule sets made from it.

`Rule` rows are what an admin edits. A `RuleSet` is the frozen state of all rules after one change: runs
point at its number, so that a judgement can be repeated under the rules of its day.
"""

import pgtrigger
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from gatekeeper.types import RuleMode, Severity

MODES = [(RuleMode.ENFORCED.value, _("enforced")), (RuleMode.SHADOW.value, _("shadow")), (RuleMode.OFF.value, _("off"))]
SEVERITIES = [
    (Severity.LOW_CONFID.value, _("low confidence")),
    (Severity.REJECT.value, _("reject")),
]


class Rule(models.Model):
    """One rule's metadata. `params` is a flat JSON object; its keys and types are those of the shipped file.

    `title` and `description` are the shipped file's, and follow it. `own_description` is what an admin wrote instead:
    it stays when the file changes.
    """

    code = models.CharField(_("code"), max_length=40, primary_key=True)
    title = models.CharField(_("title"), max_length=200)
    description = models.TextField(_("shipped description"))
    own_description = models.TextField(_("description of our own"), blank=True, default="")
    mode = models.CharField(_("mode"), max_length=8, choices=MODES)
    severity = models.CharField(_("severity"), max_length=10, choices=SEVERITIES)
    params = models.JSONField(_("parameters"), default=dict, blank=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        db_table = "gatekeeper_rule"
        ordering = ["code"]
        verbose_name = _("rule")
        verbose_name_plural = _("rules")
        constraints = [
            models.CheckConstraint(name="gatekeeper_rule_mode", condition=Q(mode__in=[m.value for m in RuleMode])),
            models.CheckConstraint(
                name="gatekeeper_rule_severity", condition=Q(severity__in=[s.value for s in Severity])
            ),
        ]

    def __str__(self) -> str:
        return self.code

    @property
    def told(self) -> str:
        """The description that pages show."""
        return self.own_description or self.description


class RuleSet(models.Model):
    """An immutable set. `rules` is the document of `gatekeeper.canonical.rules_document`, `digest` its SHA-256.

    `own_descriptions`: those that admins wrote, by code; they judge nothing, so the digest leaves them out. `lowered`:
    the rules of the floor of safety that are below it. `restores`: number of the earlier set that this one repeats.
    """

    number = models.PositiveIntegerField(_("number"), unique=True)
    digest = models.CharField(_("digest"), max_length=64)
    rules = models.JSONField(_("rules"))
    own_descriptions = models.JSONField(_("descriptions of our own"), default=dict, blank=True)
    lowered = ArrayField(models.CharField(max_length=40), verbose_name=_("below the floor"), default=list, blank=True)
    restores = models.PositiveIntegerField(_("restores"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    # Null: made by sync_rules. A person who changed rules cannot be deleted, only deactivated.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("created by"),
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
    )
    reason = models.TextField(_("reason"))

    class Meta:
        db_table = "gatekeeper_rule_set"
        ordering = ["-number"]
        verbose_name = _("rule set")
        verbose_name_plural = _("rule sets")
        constraints = [
            models.CheckConstraint(name="gatekeeper_rule_set_number", condition=Q(number__gt=0)),
            models.CheckConstraint(name="gatekeeper_rule_set_digest", condition=Q(digest__regex=r"^[0-9a-f]{64}$")),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            pgtrigger.Trigger(
                name="no_truncate",
                level=pgtrigger.Statement,
                when=pgtrigger.Before,
                operation=pgtrigger.Truncate,
                func="RAISE EXCEPTION 'append-only: TRUNCATE of % is refused', TG_TABLE_NAME;",
            ),
        ]

    def __str__(self) -> str:
        return str(self.number)

    @property
    def who(self) -> str:
        return self.created_by.get_username() if self.created_by else "sync_rules"


class RuleProposal(models.Model):
    """A change that somebody looks at before it is saved; a page of its own, so it can be previewed and passed on.

    `changes` is the document of `gatekeeper.changes.Changes`: only what differs from the set that its author saw
    (`shown_number`), so it can still be made on a newer one. It judges nothing until it is saved.
    """

    shown_number = models.PositiveIntegerField(_("made on rule set"))
    changes = models.JSONField(_("changes"))
    restores = models.PositiveIntegerField(_("restores"), null=True, blank=True)
    reason = models.TextField(_("reason"), blank=True, default="")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("created by"), on_delete=models.PROTECT, related_name="+"
    )
    saved_as = models.PositiveIntegerField(_("saved as rule set"), null=True, blank=True, unique=True)

    class Meta:
        db_table = "gatekeeper_rule_proposal"
        ordering = ["-id"]
        verbose_name = _("proposed change of rules")
        verbose_name_plural = _("proposed changes of rules")

    def __str__(self) -> str:
        return str(self.pk)
