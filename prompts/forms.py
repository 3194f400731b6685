"""What a person fills in on the pages of prompts. Nothing here decides: `prompts.actions` does."""

from django import forms
from django.utils.translation import gettext_lazy as _

from prompts.actions import MAX_REASON_CHARS


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=_("Why"),
        max_length=MAX_REASON_CHARS,
        help_text=_("Kept for good, beside your name and the time."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class ActivateForm(ReasonForm):
    """`shown`: id of the activation that the page showed as the newest."""

    shown = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1, widget=forms.HiddenInput)


class EditForm(ReasonForm):
    """`newest`: number of the newest version when the page was made."""

    field_order = ("text", "reason", "newest")

    # Bounded by what a browser may send at all; a text that is too long comes back with a sentence, and whole.
    text = forms.CharField(
        label=_("Text"),
        strip=False,
        required=False,
        widget=forms.Textarea(attrs={"rows": 30, "spellcheck": "true", "wrap": "soft"}),
        help_text=_("A version may be a draft: only what is activated must hold what its role needs."),
    )
    newest = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)


class CompareForm(forms.Form):
    """Two versions of one prompt, by number."""

    a = forms.TypedChoiceField(label=_("Before"), coerce=int)
    b = forms.TypedChoiceField(label=_("After"), coerce=int)

    def __init__(self, *args: object, choices: list[tuple[int, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        for name in ("a", "b"):
            self.fields[name].choices = choices  # type: ignore[attr-defined]
