"""What `runs` shows in the admin: a module a kind of page."""

from runs.token_admin import ApiTokenAdmin

__all__ = ["ApiTokenAdmin"]
