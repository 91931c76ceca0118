"""How many random examples a test tries: few in CI, ``MACHINE_EXAMPLES`` in a thorough run.

``HYPOTHESIS_PROFILE=thorough MACHINE_EXAMPLES=50 pytest ... -o timeout=0`` is a thorough run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

THOROUGH = {"ci": False, "thorough": True}[os.environ.get("HYPOTHESIS_PROFILE", "ci")]
MANY = int(os.environ.get("MACHINE_EXAMPLES", "100"))


def examples(few: int) -> settings:
    """Settings for examples that take seconds each; a CI run tries ``few`` and does not shrink."""
    return settings(
        max_examples=MANY if THOROUGH else few,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=list(Phase) if THOROUGH else [Phase.explicit, Phase.reuse, Phase.generate],
    )
