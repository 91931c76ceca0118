"""Choices that a user makes by a word."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from ..errors import InvalidRequest

Choice = TypeVar("Choice", bound=StrEnum)


def parse_enum(subject: str, argument: str, kind: type[Choice], value: str) -> Choice:
    """``value`` as a member of ``kind``.

    :raises InvalidRequest: ``value`` is not a member; the message lists the members
    """
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidRequest(
            subject,
            f"cannot use this {argument}",
            cause=str(error),
            fix=f"set {argument} to one of {', '.join(member.value for member in kind)}",
        ) from None
