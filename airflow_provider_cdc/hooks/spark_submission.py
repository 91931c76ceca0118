"""Submission by spark-submit, through the Spark provider's hook."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk.exceptions import AirflowException

from airflow_provider_cdc.engine import log_store
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.json_text import to_json
from airflow_provider_cdc.jobs import entry_point
from airflow_provider_cdc.jobs.answers import read_answer, remove_answer
from airflow_provider_cdc.jobs.model import Answer, Request
from airflow_provider_cdc.jobs.requests import remove_request, request_place, write_request

from .brief_jobs import BriefJob, options_so_far
from .class_archive import ClassArchive
from .class_path import class_path_settings
from .connection import DEFAULT_CONF, LOCAL_CONF, CdcConnection, is_secret
from .driver_log import LoggedSubmitHook, log4j_environment
from .failures import CdcJobFailed
from .lineage import is_lineage_secret
from .resolved_jars import ResolvedJars, worker_folder
from .submission import Submission

if TYPE_CHECKING:
    from airflow.sdk import Connection

log = logging.getLogger(__name__)

# Linux takes 128 KiB in one argument.
_ARGUMENT_BYTES = 120_000
# Airflow asks a task to stop, and ends it five seconds later.
_KILL_SECONDS = 3
# A second attempt would find the work done, and would overwrite the answer of the first.
_YARN_CLUSTER_CONF = {"spark.yarn.maxAppAttempts": "1"}
_LOG = "read the application's log above"
_CLUSTER_LOG = (
    "read the driver's log on the cluster: the log above names its pod or application (kubectl"
    " logs, yarn logs -applicationId); most often the driver does not have the engine, or its"
    f" environment does not have {entry_point.STORAGE_OPTIONS_VARIABLE}, with which it writes its"
    " answer"
)
_LOCAL = re.compile(r"local(\[.*\])?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class SparkSubmission(Submission):
    """A request run by ``spark-submit`` through the Spark provider's hook.

    :param spark: the Spark connection
    :param conf: Spark settings that override those of the connection. Settings that hold secrets
        reach the driver like ``secret_conf`` of the connection. In cluster mode they do not reach
        the driver
    :param job_name: the same in each run of a job; ``None``: the job has only this run
    :raises InvalidRequest: the worker lacks a provider that the master needs
    """

    def __init__(
        self,
        request: Request,
        connection: CdcConnection,
        *,
        spark: Connection,
        conf: Mapping[str, str] | None = None,
        job_name: str | None = None,
    ) -> None:
        super().__init__(request, connection)
        self._job_name = job_name
        extra = spark.extra_dejson
        self.cluster_mode = extra.get("deploy-mode") == "cluster"
        self.logs_here = not self.cluster_mode
        self.is_local = bool(_LOCAL.fullmatch(spark.host or ""))
        # The Spark provider finds the kind of the master in the same way.
        master = f"{spark.conn_type}://{spark.host or ''}"
        self.is_yarn = "yarn" in master
        if "k8s" in master:
            _check_kubernetes(spark.conn_id)
        self.application = connection.entry_point or str(Path(entry_point.__file__).resolve())
        self._binary = _spark_binary(extra)
        given = dict(conf or {})
        hidden = {key for key in given if is_secret(key) or is_lineage_secret(key)}
        self._secret_conf = {**connection.secret_conf, **{key: given.pop(key) for key in hidden}}
        # In cluster mode the driver's machine may not have the jar of the log store.
        chosen = {**connection.conf, **self._secret_conf, **given}
        stores = {} if self.cluster_mode else log_store.default_settings(chosen)
        settings = {**self._conf(), **stores, **given}
        self._environment = (
            {} if self.cluster_mode else log4j_environment(settings, _spark_folder())
        )
        self._archive: ClassArchive | None = None
        self._brief: BriefJob | None = None
        self.spark_hook = self._spark_hook(settings)
        self._check_master(spark)

    def run(self) -> Answer:
        """See :meth:`Submission.run`. The log of the application goes to the log of the task."""
        state, options = self.connection.state, self.connection.store_options
        failure: AirflowException | None = None
        self._check_alive()
        if self._is_in_file:
            write_request(self.request, options)
        if self._brief is not None:
            self._brief.begin()
        try:
            self.spark_hook.submit(self.application, env=self.environment())
        except AirflowException as error:
            failure = error
        finally:
            self._close_pipe()
            if self._archive is not None:
                self._archive.keep()
            if self._brief is not None:
                self._brief.keep(has_ended_well=failure is None)
            if self._is_in_file:
                self._tidy("request", remove_request, self.request, options)
        answer = read_answer(state, self.request.request_id, options)
        if answer is None:
            raise CdcJobFailed(
                f"{self.request.job} job {self.request.request_id}: Spark ended without an"
                f" answer. Cause: {self._end(failure)}. Fix:"
                f" {_CLUSTER_LOG if self.cluster_mode else _LOG}; running the task again is safe."
            ) from failure
        self._tidy("answer", remove_answer, state, self.request.request_id, options)
        if failure and not answer.error:
            log.warning("The job was done, but afterwards %s", self._end(failure))
        return answer

    def _tidy(self, what: str, remove: Callable[..., None], *arguments: Any) -> None:
        try:
            remove(*arguments)
        except Exception:
            log.warning("The job has ended, but its %s cannot be removed", what, exc_info=True)

    def _stop(self) -> None:
        """End the application by the Spark provider, and end all of its processes on this machine.

        In client mode the provider ends only the JVM, and the Python driver would continue.
        """
        processes = self._processes()
        try:
            self.spark_hook.on_kill()
        except Exception:
            log.exception(
                "The Spark provider could not end the application; on a cluster it may still run."
                " To end one in cluster mode on YARN, the worker needs the command yarn"
            )
        finally:
            survivors = psutil.wait_procs(processes, timeout=0)[1]
            for process in survivors:
                _signal(process, "terminate")
            for process in psutil.wait_procs(survivors, timeout=_KILL_SECONDS)[1]:
                _signal(process, "kill")

    def environment(self) -> dict[str, str]:
        """The environment of spark-submit: that of the worker, with the secrets of the connection.

        In cluster mode the driver runs on the cluster, and its environment must already have the
        secrets. The Spark provider would put environment variables on the command line.
        """
        environment = {**self._spark_home, **os.environ, **self._environment}
        for variable, values in (
            (entry_point.STORAGE_OPTIONS_VARIABLE, self.connection.store_options),
            (entry_point.SECRET_CONF_VARIABLE, self._secret_conf),
        ):
            if values and self.cluster_mode:
                log.info(
                    "Cluster mode: the driver must have %s in its own environment, with %s",
                    variable,
                    ", ".join(sorted(values)),
                )
            elif values:
                environment[variable] = json.dumps(dict(values))
        return environment

    def _conf(self) -> dict[str, str]:
        python = self.connection.driver_python or (None if self.cluster_mode else sys.executable)
        return {
            **DEFAULT_CONF,
            **(LOCAL_CONF if self.is_local else {}),
            **(_YARN_CLUSTER_CONF if self.is_yarn and self.cluster_mode else {}),
            **({"spark.pyspark.driver.python": python} if python else {}),
            **self.connection.conf,
        }

    @property
    def _spark_home(self) -> dict[str, str]:
        # Without this variable, the script asks the python3 on the PATH for the folder of Spark.
        home = _package_of_spark() if self._binary else None
        return {} if home is None else {"SPARK_HOME": home}

    def _spark_hook(self, conf: dict[str, str]) -> LoggedSubmitHook:
        settings = self.connection
        packages, jars = self._jars(conf)
        return LoggedSubmitHook(
            conf=conf,
            conn_id=settings.spark_conn_id,
            packages=packages,
            jars=jars,
            repositories=settings.repositories,
            driver_memory=settings.driver_memory,
            executor_memory=settings.executor_memory,
            executor_cores=settings.executor_cores,
            num_executors=settings.num_executors,
            archives=settings.archives,
            py_files=settings.py_files,
            name=f"cdc-{self.request.job}-{self.request.request_id[:8]}",
            application_args=self._arguments(),
            spark_binary=self._binary,
        )

    def _arguments(self) -> list[str]:
        text = request_argument(self.request)
        self._is_in_file = len(text) > _ARGUMENT_BYTES
        if self._is_in_file:
            return [entry_point.REQUEST_FILE, request_place(self.request)]
        return ["--request", text]

    def _jars(self, conf: dict[str, str]) -> tuple[str | None, str | None]:
        """The packages that Spark must resolve, and the jars that are already known."""
        packages, jars = self._given_jars(conf)
        uses_own_store = not self.cluster_mode and log_store.CLASS in conf.values()
        own = [log_store.jar().as_uri()] if uses_own_store else []
        known = [*(jars or "").split(","), *own]
        return packages, ",".join(dict.fromkeys(filter(None, known))) or None

    def _given_jars(self, conf: dict[str, str]) -> tuple[str | None, str | None]:
        settings = self.connection
        if settings.packages is None or self.cluster_mode:
            return settings.packages, settings.jars
        resolved = ResolvedJars(settings.packages, settings.repositories, settings.jars, conf)
        if found := resolved.read():
            # This is not the first job of this worker.
            conf.update(class_path_settings(settings, found, conf))
            self._start_quickly(conf)
            return None, ",".join(found)
        if resolved.are_fixed and resolved.prepare():
            self._environment[entry_point.JARS_FILE_VARIABLE] = str(resolved.file)
        return settings.packages, settings.jars

    def _start_quickly(self, conf: Mapping[str, str]) -> None:
        """Let the driver use an archive of classes, or make it, and use what is known of the job's
        last run.
        """
        spark_home = _spark_folder()
        if spark_home is None or self.cluster_mode:
            return
        self._archive = ClassArchive(worker_folder(), spark_home, conf)
        self._environment.update(self._archive.environment())
        if self._job_name is not None:
            self._brief = BriefJob(worker_folder(), self._job_name, conf)
            self._environment.update(self._brief.environment(options_so_far(self._environment)))

    def _check_master(self, spark: Connection) -> None:
        # The Spark provider reads the connection itself, and assumes YARN if that fails.
        if not self.is_yarn and self.spark_hook._connection["master"] == "yarn":
            raise CdcJobFailed(
                f"Spark connection {spark.conn_id}: was not found by the Spark provider, which"
                " would submit to a YARN cluster. Cause: Airflow's store of connections did not"
                " answer. Fix: run the task again, nothing was submitted."
            )

    def _close_pipe(self) -> None:
        # The Spark provider leaves the pipe of spark-submit's output to the garbage collector.
        process = self.spark_hook._submit_sp
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def _end(self, failure: AirflowException | None) -> str:
        """The text that shows how spark-submit ended, with its last line.

        :param failure: the Spark provider's error, with the command and up to 500 lines; ``None``:
            it raised no error
        """
        process = self.spark_hook._submit_sp
        if failure is None:
            return "spark-submit reported success"
        if process is None or not process.returncode:
            return str(failure).partition("\n")[0].rstrip(".")
        said = [line for line in self.spark_hook._last_submit_log_lines if line]
        last = f": {said[-1]}" if said else ""
        return f"spark-submit ended with exit code {process.returncode}{last}".rstrip(".")

    def _processes(self) -> list[psutil.Process]:
        found: dict[int, psutil.Process] = {}
        for process in psutil.Process().children(recursive=True):
            try:
                if any(self.request.request_id in word for word in process.cmdline()):
                    found.update({item.pid: item for item in process.children(recursive=True)})
                    found[process.pid] = process
            except psutil.NoSuchProcess:
                continue
        return list(found.values())


def _spark_folder() -> str | None:
    return os.environ.get("SPARK_HOME") or _package_of_spark()


def _package_of_spark() -> str | None:
    module = find_spec("pyspark")
    return str(Path(module.origin).parent) if module and module.origin else None


def request_argument(request: Request) -> str:
    """The JSON of ``request`` as one argument of spark-submit.

    The text is ASCII, because a JVM decodes it by its locale. It does not contain two equal braces
    in a row, because YARN reads them as a variable. It does not contain a dollar sign, because
    Kubernetes reads it as a variable.
    """
    return _STRING.sub(_escaped, to_json(request)).replace("}}", "} }").replace("{{", "{ {")


def _escaped(match: re.Match[str]) -> str:
    """A string of JSON. Numeric escapes replace the characters that a cluster or a locale might
    change.
    """
    text = json.dumps(json.loads(match[0]))
    return text.replace("{", "\\u007b").replace("}", "\\u007d").replace("$", "\\u0024")


def _check_kubernetes(conn_id: str) -> None:
    # The Spark provider needs this name, but does not report that it could not import it.
    if not hasattr(spark_submit, "kube_client"):
        raise InvalidRequest(
            f"Spark connection {conn_id}",
            "cannot be used by this worker",
            cause="its master is Kubernetes, and the Spark provider finds no Kubernetes provider",
            fix="install apache-airflow-providers-cncf-kubernetes on the workers",
        )


def _spark_binary(spark_extra: Mapping[str, Any]) -> str | None:
    # If a worker was started by its full path, its environment's spark-submit is not on the PATH.
    beside_python = Path(sys.executable).parent / "spark-submit"
    wanted = spark_extra.get("spark-binary") or "spark-submit"
    return str(beside_python) if not shutil.which(wanted) and beside_python.exists() else None


def _signal(process: psutil.Process, name: str) -> None:
    try:
        getattr(process, name)()
    except psutil.NoSuchProcess:
        log.debug("Process %s ended by itself", process.pid)
