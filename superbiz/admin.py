"""What the composition root shows in the admin: people, groups, sign-ins, and what was changed by hand."""

from superbiz.changes_admin import ChangesAdmin
from superbiz.signin_admin import AttemptAdmin, SignInAdmin
from superbiz.user_admin import GroupAdmin, PersonAdmin

__all__ = ["AttemptAdmin", "ChangesAdmin", "GroupAdmin", "PersonAdmin", "SignInAdmin"]
