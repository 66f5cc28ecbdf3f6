"""The user who runs hpclaunch."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """Return the user's name; the number of a user without one, as in a container."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
