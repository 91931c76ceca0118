"""Streams with something to consume, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from protocol_lab import ProtocolLab


@pytest.fixture
def lab(tmp_path: Path) -> ProtocolLab:
    """Streams ``s`` on ``src`` with two rows and ``d`` on ``dim`` with one row to consume, and the
    empty targets ``log`` and ``other``.
    """
    lab = ProtocolLab(root=tmp_path)
    lab.make_source("src", "id INT, v STRING")
    lab.make_source("dim", "id INT, n INT")
    lab.make("log", "id INT, v STRING, action STRING")
    lab.make("other", "id INT, v STRING, action STRING")
    lab.create_stream("s", "src")
    lab.create_stream("d", "dim")
    lab.sql("INSERT INTO {src} VALUES (1, '10'), (2, '20')", "INSERT INTO {dim} VALUES (1, 100)")
    return lab


@pytest.fixture
def three(lab: ProtocolLab) -> ProtocolLab:
    """Targets that hold rows already, and a value in ``src`` that is not a number."""
    lab.make("sums", "k INT, total BIGINT", "INSERT INTO {t} VALUES (0, 1000), (1, 2000)")
    lab.make("numbers", "n INT")
    lab.sql("INSERT INTO {src} VALUES (3, 'x')", "INSERT INTO {log} VALUES (0, 'kept', 'x')")
    return lab
