"""Rows that hold Debezium's messages, as changes of the table that the messages are about."""

from __future__ import annotations
