"""Keep Spark's classes as a JVM holds them in memory, so that later drivers start with less work.

The second job of a worker writes the archive when it ends, and later jobs use it. A worker that
runs one job and ends, as on Kubernetes, never writes one. The JVM ignores an archive that does not
fit.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .driver_options import CLASS_PATH, OPTIONS_VARIABLE, has_option

log = logging.getLogger(__name__)

# A JVM writes what it thinks of an archive to its standard output. Another kind of JVM does not
# know these options.
_QUIET = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable -Xlog:all=error:stderr"
_OF_USER = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare", "-Xlog")
# A job that was killed while it made the archive must not prevent it for ever.
_CLAIM_SECONDS = 3600


class ClassArchive:
    """The archive of the classes of drivers in client mode, in a file below ``folder``.

    :param folder: where the archives of this worker are
    :param spark_home: the folder of Spark
    :param conf: the settings of the job
    """

    def __init__(self, folder: Path, spark_home: str, conf: Mapping[str, str]) -> None:
        known_by = json.dumps([spark_home, _java(), conf.get(CLASS_PATH)])
        self.file = folder / f"classes-{sha256(known_by.encode()).hexdigest()[:16]}.jsa"
        self._draft = self.file.with_suffix(f".{os.getpid()}.draft")
        self._claim = self.file.with_suffix(".claim")
        self._is_possible = not has_option(conf, _OF_USER)

    def environment(self) -> dict[str, str]:
        """The environment variables of a job that uses the archive, or makes it.

        It is empty if the user has options of their own for archives, or if another job is making
        the archive.
        """
        if not self._is_possible:
            return {}
        if self.file.exists():
            option = f"-XX:SharedArchiveFile={self.file}"
        elif self._claimed():
            option = f"-XX:ArchiveClassesAtExit={self._draft}"
        else:
            return {}
        given = os.environ.get(OPTIONS_VARIABLE, "")
        return {OPTIONS_VARIABLE: f"{given} {_QUIET} {option}".strip()}

    def keep(self) -> None:
        """Keep the archive that the job has written, if it has written one."""
        with suppress(OSError):
            os.replace(self._draft, self.file)
            log.debug("Later drivers start from the archive %s", self.file)

    def _claimed(self) -> bool:
        with suppress(OSError):
            if time.time() - self._claim.stat().st_mtime > _CLAIM_SECONDS:
                self._claim.unlink()
        try:
            self._claim.touch(exist_ok=False)
        except OSError:
            return False
        return True


def _java() -> list[str | int]:
    """What changes when this worker gets another Java."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin/java")) if home else shutil.which("java")
    if found is None:
        return []
    binary = Path(found).resolve()
    modules = binary.parents[1] / "lib/modules"
    return [str(binary), modules.stat().st_mtime_ns if modules.exists() else 0]
