"""The error with which a command refuses its arguments."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(Exception):
    """A command cannot do what its arguments ask for; the message says why, and what to do."""
