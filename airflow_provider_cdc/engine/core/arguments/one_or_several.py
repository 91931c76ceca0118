"""Arguments that are one text or several: statements, or names of columns, tables or streams."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidRequest


def one_or_several(subject: str, argument: str, given: object) -> tuple[str, ...]:
    """``given`` as a tuple. A text is one element, and is not split into its letters.

    :param subject: what a message is about
    :param argument: the name of the argument
    :raises InvalidRequest: ``given`` is neither a text nor several texts
    """
    if isinstance(given, str):
        return (given,)
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    if wrong := [each for each in found if not isinstance(each, str)]:
        raise InvalidRequest(
            subject,
            f"cannot use this {argument}",
            cause=f"expected a text or a list of texts, found {type(wrong[0]).__name__}"
            f" {wrong[0]!r}",
            fix=f"write {argument}='...' or {argument}=['...', '...']",
        )
    return found
