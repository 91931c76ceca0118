"""A store that counts the listings of folders."""

from __future__ import annotations

from airflow_provider_cdc.engine.storage.files.stores import Files


class CountingFiles(Files):
    """Records where each listing began: the names after which files were listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listings: list[str] = []

    def names(self, uri: str, *, after: str = "") -> list[str]:
        self.listings.append(after)
        return super().names(uri, after=after)
