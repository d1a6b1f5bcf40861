"""Who sees drafts, and content whose time of publication has not come."""

from datetime import datetime

from portico.schema.context import Context
from portico.schema.roles import Role


def sees_until(context: Context) -> datetime | None:
    """Returns the time by which content must be visible for the caller to see it; None if they see everything."""
    return None if context.has_role(Role.EDITOR) else context.compared_now
