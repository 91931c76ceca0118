"""Debezium's messages: their envelopes, their schemas, and the positions that order them."""

from __future__ import annotations
