"""What checks of an installation find."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. ``fix`` is what to do; ``None``: nothing is wrong."""

    subject: str
    text: str
    fix: str | None = None

    @property
    def line(self) -> str:
        """The finding in one line."""
        mark = "ok  " if self.fix is None else "FAIL"
        advice = "" if self.fix is None else f" Fix: {self.fix}."
        return f"{mark}  {self.subject}: {self.text}.{advice}"
