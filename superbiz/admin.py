"""What the composition root shows in the admin: people, groups and sign-ins."""

from superbiz.signin_admin import AttemptAdmin, SignInAdmin
from superbiz.user_admin import GroupAdmin, PersonAdmin

__all__ = ["AttemptAdmin", "GroupAdmin", "PersonAdmin", "SignInAdmin"]
