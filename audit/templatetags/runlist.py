"""The run list's rows for templates."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.utils.safestring import SafeString

from audit.pages.listaddress import Address
from audit.pages.listrowhtml import rows_html
from audit.pages.runlist import RunRow

register = template.Library()


@register.simple_tag
def run_rows(rows: Iterable[RunRow], address: Address, now: datetime, **how: Any) -> SafeString:
    return rows_html(rows, address.columns, now, reasons=address.attention, **how)
