"""The base class of the tasks of jobs."""

from __future__ import annotations

import re

import msgspec


def _job_name(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class JobTask(msgspec.Struct, frozen=True, tag_field="job", tag=_job_name):
    """A task of a job. Its JSON holds the name of the job, so a reader finds the right class."""

    @property
    def job(self) -> str:
        """The name of the job, such as ``create_stream``."""
        return str(self.__struct_config__.tag)
