"""What a person fills in on the pages of rules. Nothing here decides: `gatekeeper.rulesets` does."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from gatekeeper.changes import RuleChange
from gatekeeper.models import MODES, SEVERITIES
from gatekeeper.rulesets import LARGEST_PARAM, MAX_DESCRIPTION_CHARS, MAX_REASON_CHARS, MAX_TEXT_PARAM_CHARS
from gatekeeper.types import RuleMode, RuleSetting, Severity

LARGEST_NUMBER = 2**31 - 1
PARAMETER = "param_"


class ReasonForm(forms.Form):
    """`shown`: number of the rule set that the page showed."""

    reason = forms.CharField(
        label=_("Why"),
        max_length=MAX_REASON_CHARS,
        help_text=_("Kept for good, beside your name and the time."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    shown = forms.IntegerField(min_value=1, max_value=LARGEST_NUMBER, widget=forms.HiddenInput)


class RuleForm(ReasonForm):
    """One rule's mode, severity, parameters and description; a field for each parameter, of its type."""

    mode = forms.ChoiceField(label=_("Mode"), choices=MODES)
    severity = forms.ChoiceField(label=_("Severity"), choices=SEVERITIES)
    description = forms.CharField(
        label=_("Description"),
        required=False,
        max_length=MAX_DESCRIPTION_CHARS,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=_("Your own words stay when a release brings others. Empty: the shipped description."),
    )

    def __init__(self, *args: Any, setting: RuleSetting, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._params = tuple(sorted(setting.params))
        for name, value in sorted(setting.params.items()):
            self.fields[PARAMETER + name] = _field_of(name, value)
        names = ("mode", "severity", *(PARAMETER + name for name in self._params), "description", "reason", "shown")
        self.order_fields(names)

    @property
    def change(self) -> RuleChange:
        """All fields as they were sent; what is as before is no change. Of a valid form."""
        sent = self.cleaned_data
        return RuleChange(
            mode=RuleMode(sent["mode"]),
            severity=Severity(sent["severity"]),
            params={name: sent[PARAMETER + name] for name in self._params},
            description=sent["description"],
        )


def _field_of(name: str, value: object) -> forms.Field:
    words: dict[str, Any] = {"label": _("Parameter %(name)s") % {"name": name}}
    match value:
        case bool():
            return forms.BooleanField(required=False, **words)
        case int():
            return forms.IntegerField(min_value=0, max_value=LARGEST_PARAM, **words)
        case float():
            return forms.FloatField(min_value=0, max_value=LARGEST_PARAM, **words)
    return forms.CharField(
        required=False,
        max_length=MAX_TEXT_PARAM_CHARS,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        **words,
    )


def initial_of(setting: RuleSetting, description: str, shown: int) -> dict[str, Any]:
    return {
        "mode": setting.mode.value,
        "severity": setting.severity.value,
        "description": description,
        "shown": shown,
        **{PARAMETER + name: value for name, value in setting.params.items()},
    }


class CompareForm(forms.Form):
    """Two rule sets by number."""

    a = forms.IntegerField(label=_("Before"), min_value=1, max_value=LARGEST_NUMBER)
    b = forms.IntegerField(label=_("After"), min_value=1, max_value=LARGEST_NUMBER)
