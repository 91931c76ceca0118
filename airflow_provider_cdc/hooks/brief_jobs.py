"""Remember which jobs of a worker are short, so that their drivers compile less.

The driver of a short job spends more time on the optimizing compiler of the JVM than this compiler
saves. If the last run of a job was short, the next run uses only the first compiler. If that run is
long, the run after it uses both again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .driver_options import OPTIONS_VARIABLE, has_option

# Without a size, a JVM with one compiler keeps so little code that a long job would fill it.
_FIRST_COMPILER = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
)
_OF_USER = ("TieredStopAtLevel", "TieredCompilation", "CompilationMode", "-Xint", "-Xcomp")
_LONGEST_SECONDS = 30.0


class BriefJob:
    """Whether the last run of a job was short, in a file below ``folder``.

    :param folder: where this worker keeps what later jobs need
    :param name: of the job, the same in each run
    :param conf: the settings of the job
    """

    def __init__(self, folder: Path, name: str, conf: Mapping[str, str]) -> None:
        self.file = folder / "brief" / sha256(name.encode()).hexdigest()[:16]
        self._is_possible = not has_option(conf, _OF_USER)
        self._begun = time.monotonic()

    def environment(self, given: str) -> dict[str, str]:
        """The environment variables of the next run.

        :param given: the options of the JVM that it gets in any case
        """
        if not (self._is_possible and self.file.exists()):
            return {}
        return {OPTIONS_VARIABLE: f"{given} {_FIRST_COMPILER}".strip()}

    def begin(self) -> None:
        """Start the clock of the run."""
        self._begun = time.monotonic()

    def keep(self, *, has_ended_well: bool) -> None:
        """Remember how long the run took.

        :param has_ended_well: a failure does not show how long the job takes, so it counts as long
        """
        seconds = time.monotonic() - self._begun
        # A worker that cannot write here runs its jobs with both compilers.
        with suppress(OSError):
            if has_ended_well and seconds < _LONGEST_SECONDS:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.file.touch()
            else:
                self.file.unlink(missing_ok=True)


def options_so_far(environment: Mapping[str, str]) -> str:
    """The options of the JVM in ``environment``, or those of this process."""
    return environment.get(OPTIONS_VARIABLE, os.environ.get(OPTIONS_VARIABLE, ""))
