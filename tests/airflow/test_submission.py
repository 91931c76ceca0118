from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowTaskTimeout,
)
from structlog.testing import capture_logs

from airflow_provider_cdc.engine import log_store
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.json_text import from_json
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.hooks.cdc import CdcHook, request_for
from airflow_provider_cdc.hooks.connect_submission import ConnectSubmission
from airflow_provider_cdc.hooks.connection import DEFAULT_CONF, LOCAL_CONF, CdcConnection
from airflow_provider_cdc.hooks.driver_log import LOG4J_FILE, LOG4J_VARIABLE
from airflow_provider_cdc.hooks.driver_options import OPTIONS_VARIABLE
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.spark_submission import SparkSubmission, request_argument
from airflow_provider_cdc.jobs import entry_point
from airflow_provider_cdc.jobs.answers import read_answer, write_answer
from airflow_provider_cdc.jobs.model import Answer, ConsumeStream, JobError, Request, StreamHasData
from airflow_provider_cdc.jobs.requests import read_request

SECRET = "hunter2hunter2"


@pytest.fixture
def connection(define_connection, tmp_path, monkeypatch) -> CdcConnection:
    # Another test may have recorded its resolved jars in Airflow's home.
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    define_connection("spark_default", "spark", "local[2]")
    return CdcConnection.from_extra(
        "cdc_default",
        {
            "state": tmp_path.as_uri(),
            "storage_options": {"AWS_REGION": "eu"},
            "secret_storage_options": {"AWS_SECRET_ACCESS_KEY": SECRET},
            "secret_conf": {"spark.hadoop.fs.s3a.secret.key": SECRET},
            "conf": {"spark.sql.shuffle.partitions": 7},
            "driver_memory": "2g",
            "archives": "cdc.tar.gz#environment",
        },
    )


def submission_of(connection: CdcConnection, task=None) -> SparkSubmission:
    """The submission of a task by the Spark connection as it is defined now."""
    request = request_for(connection, task or StreamHasData("s"))
    spark = CdcHook.get_connection(connection.spark_conn_id)
    return SparkSubmission(request, connection, spark=spark)


def command_of(submission: SparkSubmission) -> list[str]:
    return submission.spark_hook._build_spark_submit_command(submission.application)


def settings_of(command: list[str]) -> dict[str, str]:
    return dict(value.split("=", 1) for option, value in pairwise(command) if option == "--conf")


def test_submission_command_holds_the_request_and_the_connections_settings(connection):
    submission = submission_of(connection, ConsumeStream(("INSERT INTO t SELECT 1",), "dag.task"))

    command = command_of(submission)

    assert command[command.index("--master") + 1] == "local[2]"
    assert command[command.index("--driver-memory") + 1] == "2g"
    assert command[command.index("--archives") + 1] == "cdc.tar.gz#environment"
    assert command[command.index("--packages") + 1].startswith("io.delta:delta-spark_")
    assert command[-3:-1] == [entry_point.__file__, "--request"]
    assert from_json(command[-1], Request) == submission.request


def test_submission_settings_of_the_connection_override_defaults(connection):
    settings = settings_of(command_of(submission_of(connection)))

    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.databricks.delta.snapshotPartitions"] == "2"
    assert settings["spark.pyspark.driver.python"] == sys.executable
    assert settings.items() >= entry_point.DELTA_CONF.items()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*, 3]"])
def test_submission_in_one_process_has_settings_that_fit_it(connection, define_connection, master):
    define_connection("spark_default", "spark", master)

    settings = settings_of(command_of(submission_of(replace(connection, conf={}))))

    assert settings.items() >= LOCAL_CONF.items()


@pytest.mark.parametrize("master", ["yarn", "spark://master:7077", "localhost"])
def test_submission_to_a_cluster_leaves_it_its_own_settings(connection, define_connection, master):
    define_connection("spark_default", "spark", master)

    settings = settings_of(command_of(submission_of(replace(connection, conf={}))))

    assert not settings.keys() & LOCAL_CONF.keys()
    assert settings.items() >= DEFAULT_CONF.items()


def test_submission_over_connect_leaves_the_server_its_own_settings():
    connection = CdcConnection("c", "file:///s", conf={"spark.sql.ansi.enabled": "true"})

    found = ConnectSubmission(request_for(connection, StreamHasData("s")), connection).conf

    assert found == {"spark.sql.ansi.enabled": "true"}


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://master:7077"])
def test_submission_secrets_reach_only_the_environment(
    connection, define_connection, caplog, master
):
    caplog.set_level(logging.DEBUG)
    define_connection("spark_default", "spark", master)
    submission = submission_of(connection)

    command = command_of(submission)

    assert SECRET not in " ".join(command)
    assert SECRET not in caplog.text
    variable = submission.environment()[entry_point.STORAGE_OPTIONS_VARIABLE]
    assert json.loads(variable) == {"AWS_REGION": "eu", "AWS_SECRET_ACCESS_KEY": SECRET}
    variable = submission.environment()[entry_point.SECRET_CONF_VARIABLE]
    assert json.loads(variable) == {"spark.hadoop.fs.s3a.secret.key": SECRET}


def test_submission_in_cluster_mode_sends_no_secret_or_local_interpreter(
    connection, define_connection
):
    define_connection("spark_default", "spark", "yarn", **{"deploy-mode": "cluster"})
    submission = submission_of(connection)

    command = command_of(submission)

    assert SECRET not in " ".join(command)
    assert SECRET not in submission.environment().values()
    assert "spark.pyspark.driver.python" not in settings_of(command)


@pytest.mark.parametrize(
    ("master", "extra", "attempts"),
    [
        ("yarn", {"deploy-mode": "cluster"}, "1"),
        ("yarn", {}, None),
        ("spark://master:7077", {"deploy-mode": "cluster"}, None),
    ],
)
def test_submission_to_yarn_in_cluster_mode_is_attempted_once_by_default(
    connection, define_connection, master, extra, attempts
):
    define_connection("spark_default", "spark", master, **extra)

    settings = settings_of(command_of(submission_of(connection)))
    assert settings.get("spark.yarn.maxAppAttempts") == attempts

    own = replace(connection, conf={"spark.yarn.maxAppAttempts": "3"})
    assert settings_of(command_of(submission_of(own)))["spark.yarn.maxAppAttempts"] == "3"


def test_submission_to_kubernetes_without_its_provider_is_refused(
    connection, define_connection, monkeypatch
):
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    define_connection("spark_default", "spark", "k8s://https://cluster")

    with pytest.raises(InvalidRequest, match="install apache-airflow-providers-cncf-kubernetes"):
        submission_of(connection)

    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    assert command_of(submission_of(connection))


LINEAGE = {
    "spark.openlineage.transport.type": "http",
    "spark.openlineage.transport.auth.type": "api_key",
    "spark.openlineage.transport.auth.apiKey": SECRET,
    "spark.openlineage.transport.headers.X-Tenant": SECRET,
}


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_submission_secrets_of_openlineage_reach_only_the_environment(
    connection, define_connection, caplog, mode
):
    caplog.set_level(logging.DEBUG)
    define_connection("spark_default", "spark", "yarn", **{"deploy-mode": mode})
    spark = CdcHook.get_connection("spark_default")
    submission = SparkSubmission(
        request_for(connection, StreamHasData("s")), connection, spark=spark, conf=LINEAGE
    )

    command, environment = command_of(submission), submission.environment()

    assert settings_of(command)["spark.openlineage.transport.type"] == "http"
    assert SECRET not in " ".join(command)
    assert SECRET not in caplog.text
    if mode == "cluster":
        assert entry_point.SECRET_CONF_VARIABLE not in environment
        assert "spark.openlineage.transport.auth.apiKey" in caplog.text
    else:
        hidden = json.loads(environment[entry_point.SECRET_CONF_VARIABLE])
        assert hidden == {"spark.hadoop.fs.s3a.secret.key": SECRET} | {
            key: value for key, value in LINEAGE.items() if not key.endswith("transport.type")
        }


def test_submission_argument_survives_any_cluster_and_locale_unchanged():
    sql = """INSERT INTO t SELECT '{{x}}', "}}", '\\\\' , 'ü', '🦆', '$(HOME)', '$$' FROM s"""
    request = request_for(CdcConnection("c", "file:///s"), ConsumeStream((sql,), "a"))

    text = request_argument(request)

    assert text.isascii()
    assert all(expanded not in text for expanded in ("{{", "}}", "$"))
    assert from_json(text, Request) == request


def test_submission_longer_than_an_argument_is_a_file_until_the_job_ends(
    define_connection, tmp_path, monkeypatch
):
    define_connection("cdc_default", "cdc", state=tmp_path.as_uri())
    define_connection("spark_default", "spark", "local[2]")
    request = request_for(CdcHook().settings, ConsumeStream(("SELECT " + "x" * 200_000,), "a"))
    submission = CdcHook().submission(request)
    option, place = submission.spark_hook._application_args
    seen = []

    def submit(application, env):
        seen.append(read_request(place))
        write_answer(request.state, Answer(request.request_id, has_data=True))

    monkeypatch.setattr(submission.spark_hook, "submit", submit)

    assert submission.run().has_data
    assert (option, seen) == (entry_point.REQUEST_FILE, [request])
    assert request.request_id in place
    assert list((tmp_path / "requests").iterdir()) == []


def test_entry_point_takes_a_request_or_the_file_of_one(tmp_path):
    with pytest.raises(SystemExit):
        entry_point.main([])
    with pytest.raises(FileNotFoundError):
        entry_point.main([entry_point.REQUEST_FILE, (tmp_path / "none.json").as_uri()])


def test_hook_chooses_the_submission_by_the_type_of_spark_connection(define_connection, tmp_path):
    define_connection("cdc_default", "cdc", state=tmp_path.as_uri())
    request = request_for(CdcConnection("c", tmp_path.as_uri()), StreamHasData("s"))
    define_connection("spark_default", "spark", "local[2]")
    assert isinstance(CdcHook().submission(request), SparkSubmission)

    define_connection("spark_default", "spark_connect", "localhost")
    assert isinstance(CdcHook().submission(request), ConnectSubmission)


def test_hook_without_a_spark_connection_submits_nothing_and_may_retry(define_connection, tmp_path):
    define_connection("cdc_default", "cdc", state=tmp_path.as_uri(), spark_conn_id="nowhere")

    with pytest.raises(CdcJobFailed, match="Spark connection nowhere: was not found"):
        CdcHook().submit(StreamHasData("s"))


def test_hook_does_not_use_yarn_if_the_spark_provider_finds_no_connection(
    define_connection, tmp_path, monkeypatch
):
    define_connection("cdc_default", "cdc", state=tmp_path.as_uri())
    define_connection("spark_default", "spark", "local[2]")

    def is_out(*_: object) -> None:
        raise AirflowNotFoundException("no answer")

    monkeypatch.setattr(SparkSubmitHook, "get_connection", is_out)

    with pytest.raises(CdcJobFailed, match="was not found by the Spark provider"):
        CdcHook().submit(StreamHasData("s"))


@pytest.fixture
def fake_spark_submit(define_connection, tmp_path, monkeypatch):
    """Replaces spark-submit by a script of the test; ``$@`` are its arguments."""
    define_connection("cdc_default", "cdc", state=(tmp_path / "state").as_uri())
    define_connection("spark_default", "spark", "local[2]")

    def install(body: str) -> CdcHook:
        script = tmp_path / "bin" / "spark-submit"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!{sys.executable}\nimport subprocess, sys, time\n{body}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(script.parent), prepend=":")
        return CdcHook()

    return install


ANSWERING = """
sys.path.insert(0, {root!r})
from airflow_provider_cdc.engine.core.model.json_text import from_json
from airflow_provider_cdc.jobs.answers import write_answer
from airflow_provider_cdc.jobs.model import Answer, JobError, Request
request = from_json(sys.argv[-1], Request)
write_answer(request.state, Answer(request.request_id, {answer}))
sys.exit({code})
"""
ROOT = str(Path(__file__).parents[2])


@pytest.mark.parametrize("code", [0, 1])
def test_hook_with_an_answer_returns_it_for_any_exit_code(fake_spark_submit, tmp_path, code):
    hook = fake_spark_submit(ANSWERING.format(root=ROOT, answer="has_data=True", code=code))

    assert hook.submit(StreamHasData("s")).has_data is True
    assert list((tmp_path / "state" / "answers").iterdir()) == []


@pytest.mark.parametrize(
    ("retryable", "expected"), [(True, CdcJobFailed), (False, AirflowFailException)]
)
def test_hook_raises_a_retryable_failure_only_for_a_retryable_error(
    fake_spark_submit, retryable, expected
):
    error = f"error=JobError('kind', 'stream s: is stale.', {retryable})"
    hook = fake_spark_submit(ANSWERING.format(root=ROOT, answer=error, code=1))

    with pytest.raises(expected, match="stream s: is stale") as caught:
        hook.submit(StreamHasData("s"))

    assert type(caught.value) is expected


@pytest.fixture
def airflow_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_submission_after_the_first_names_the_jars_without_asking_ivy(
    connection, airflow_home, tmp_path
):
    first = submission_of(connection)
    jars = [tmp_path / "delta-spark.jar", tmp_path / "a jar.jar"]
    for jar in jars:
        jar.touch()
    file = Path(first.environment()[entry_point.JARS_FILE_VARIABLE])
    file.write_text(json.dumps([jar.as_uri() for jar in jars]))

    second = submission_of(connection)

    assert "--packages" in command_of(first)
    command = command_of(second)
    assert "--packages" not in command
    jars.append(log_store.jar())
    assert command[command.index("--jars") + 1] == ",".join(jar.as_uri() for jar in jars)
    assert entry_point.JARS_FILE_VARIABLE not in second.environment()
    jars[0].unlink()
    assert "--packages" in command_of(submission_of(connection))


def test_submission_after_the_first_makes_or_uses_an_archive_of_classes(
    connection, tmp_path, monkeypatch
):
    monkeypatch.delenv(OPTIONS_VARIABLE, raising=False)
    assert OPTIONS_VARIABLE not in submission_of(connection).environment()
    jar = tmp_path / "delta-spark.jar"
    jar.touch()
    Path(submission_of(connection).environment()[entry_point.JARS_FILE_VARIABLE]).write_text(
        json.dumps([jar.as_uri()])
    )

    options = submission_of(connection).environment()[OPTIONS_VARIABLE]

    assert "ArchiveClassesAtExit" in options


def test_hook_whose_job_was_short_limits_the_compiler_of_its_next_run(
    fake_spark_submit, airflow_home, tmp_path, monkeypatch
):
    monkeypatch.delenv(OPTIONS_VARIABLE, raising=False)
    seen = tmp_path / "options"
    record = f"import os; print(os.environ.get('SPARK_SUBMIT_OPTS'), file=open({str(seen)!r}, 'a'))"
    answer = ANSWERING.format(root=ROOT, answer="has_data=True", code=0)
    hook = fake_spark_submit(f"{record}\n{answer}")
    task = SimpleNamespace(dag_id="d", task_id="t", map_index=-1)
    first = hook.submission(request_for(hook.settings, StreamHasData("s")))
    jar = tmp_path / "delta-spark.jar"
    jar.touch()
    Path(first.environment()[entry_point.JARS_FILE_VARIABLE]).write_text(json.dumps([jar.as_uri()]))

    for _ in range(2):
        hook.submit(StreamHasData("s"), context={"ti": task})

    before, after = seen.read_text().splitlines()
    assert "TieredStopAtLevel=1" not in before
    assert "TieredStopAtLevel=1" in after


@pytest.mark.parametrize(
    "change", [{"packages": "a:b:2"}, {"jars": "/c.jar"}, {"conf": {"spark.jars.excludes": "a:c"}}]
)
def test_submission_with_other_packages_asks_ivy_again(connection, airflow_home, tmp_path, change):
    file = submission_of(connection).environment()[entry_point.JARS_FILE_VARIABLE]
    jar = tmp_path / "delta-spark.jar"
    jar.touch()
    Path(file).write_text(json.dumps([jar.as_uri()]))

    assert "--packages" in command_of(submission_of(replace(connection, **change)))


@pytest.mark.parametrize(
    "packages", ["a:b:1-SNAPSHOT", "a:b:latest.integration", "a:b:1.+", "a:b:[1,2)"]
)
def test_submission_with_a_version_that_may_change_asks_ivy_each_time(
    connection, airflow_home, packages
):
    submission = submission_of(replace(connection, packages=packages))

    assert entry_point.JARS_FILE_VARIABLE not in submission.environment()


def test_driver_on_the_worker_gets_the_log_store_for_s3(connection, airflow_home):
    command = command_of(submission_of(replace(connection, jars="/c.jar")))

    assert command[command.index("--jars") + 1] == f"/c.jar,{log_store.jar().as_uri()}"
    assert settings_of(command).items() >= log_store.SETTINGS.items()


def test_log_store_that_a_connection_names_comes_with_its_jar(connection, airflow_home):
    chosen = {"spark.delta.logStore.s3.impl": log_store.CLASS}
    command = command_of(submission_of(replace(connection, conf=chosen)))

    assert command[command.index("--jars") + 1] == log_store.jar().as_uri()
    assert settings_of(command)["spark.delta.logStore.s3.impl"] == log_store.CLASS
    assert not settings_of(command).keys() & log_store.SETTINGS.keys()


@pytest.mark.parametrize("field", ["conf", "secret_conf"])
def test_log_stores_of_the_connection_replace_the_log_store_for_s3(connection, airflow_home, field):
    chosen = {"spark.delta.logStore.s3.impl": "a.Store"}
    command = command_of(submission_of(replace(connection, **{field: chosen})))

    assert "--jars" not in command
    assert not settings_of(command).keys() & log_store.SETTINGS.keys()


def test_submission_in_cluster_mode_leaves_jars_and_logs_to_the_cluster(
    connection, define_connection, airflow_home
):
    define_connection("spark_default", "spark", "yarn", **{"deploy-mode": "cluster"})
    submission = submission_of(connection)

    assert "--packages" in command_of(submission)
    assert "--jars" not in command_of(submission)
    assert not settings_of(command_of(submission)).keys() & log_store.SETTINGS.keys()
    assert not {entry_point.JARS_FILE_VARIABLE, LOG4J_VARIABLE} & submission.environment().keys()


def test_submission_uses_the_provider_log4j_file_unless_another_is_set(
    connection, airflow_home, monkeypatch, tmp_path
):
    assert submission_of(connection).environment()[LOG4J_VARIABLE] == str(LOG4J_FILE)
    assert LOG4J_FILE.is_file()

    option = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=own.xml"}
    assert LOG4J_VARIABLE not in submission_of(replace(connection, conf=option)).environment()
    (tmp_path / "log4j2.properties").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert LOG4J_VARIABLE not in submission_of(connection).environment()
    monkeypatch.setenv(LOG4J_VARIABLE, "own.xml")
    assert submission_of(connection).environment()[LOG4J_VARIABLE] == "own.xml"


def test_task_log_has_the_drivers_records_at_their_levels(fake_spark_submit, airflow_home):
    hook = fake_spark_submit(
        "print(':: loading settings :: url = jar'); print('\\tfound a#b;1 in central')\n"
        "print('2026-01-01 00:00:00 ERROR stream s: is stale.')\n"
        + ANSWERING.format(root=ROOT, answer="has_data=True", code=0)
    )

    with capture_logs() as found:
        hook.submit(StreamHasData("s"))

    shown = [(line["log_level"], line["event"]) for line in found if line["log_level"] != "debug"]
    assert shown == [("error", "stream s: is stale.")]


def test_hook_killed_before_spark_submit_runs_submits_nothing(
    fake_spark_submit, tmp_path, monkeypatch
):
    hook = fake_spark_submit(f"open({str(tmp_path / 'ran')!r}, 'w')")
    submission = hook.submission

    def slowly(*given):
        hook.on_kill()
        return submission(*given)

    monkeypatch.setattr(hook, "submission", slowly)

    with pytest.raises(CdcJobFailed, match="was killed before it was submitted"):
        hook.submit(StreamHasData("s"))
    assert not (tmp_path / "ran").exists()


def test_hook_without_an_answer_reports_how_spark_ended(fake_spark_submit):
    hook = fake_spark_submit("print('the cluster is full'); sys.exit(3)")

    with pytest.raises(CdcJobFailed, match="ended without an answer") as caught:
        hook.submit(StreamHasData("s"))

    assert "spark-submit ended with exit code 3: the cluster is full. Fix:" in str(caught.value)
    assert "--request" not in str(caught.value)


def test_hook_without_an_answer_from_a_cluster_reports_the_log_location(
    fake_spark_submit, define_connection
):
    hook = fake_spark_submit("sys.exit(1)")
    define_connection("spark_default", "spark", "yarn", **{"deploy-mode": "cluster"})

    with pytest.raises(CdcJobFailed, match=r"yarn logs.*AIRFLOW_PROVIDER_CDC_STORAGE_OPTIONS"):
        hook.submit(StreamHasData("s"))


CHILD_THAT_OUTLIVES = """
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code, *sys.argv[1:]], start_new_session=True)
child.wait()
"""


def test_hook_killed_ends_every_process_of_the_application(fake_spark_submit, monkeypatch):
    monkeypatch.setattr("airflow_provider_cdc.hooks.spark_submission._KILL_SECONDS", 1)
    hook = fake_spark_submit(CHILD_THAT_OUTLIVES)
    failures: list[Exception] = []

    def submit() -> None:
        try:
            hook.submit(StreamHasData("s"))
        except CdcJobFailed as error:
            failures.append(error)

    def application() -> list[psutil.Process]:
        others = {process.pid for process in before}
        return [
            item for item in psutil.Process().children(recursive=True) if item.pid not in others
        ]

    before = psutil.Process().children(recursive=True)
    task = threading.Thread(target=submit)
    task.start()
    while len(tree := application()) < 2 and task.is_alive():
        pass
    hook.kill()
    task.join(60)

    assert len(tree) == 2
    assert psutil.wait_procs(tree, timeout=10)[1] == []
    assert len(failures) == 1


def test_hook_killed_ends_the_processes_if_the_spark_provider_cannot(
    connection, monkeypatch, caplog
):
    submission = submission_of(connection)
    request_id = submission.request.request_id
    code = "import time; time.sleep(600)"
    application = subprocess.Popen([sys.executable, "-c", code, request_id])
    process = psutil.Process(application.pid)

    def no_command():
        raise FileNotFoundError("yarn")

    monkeypatch.setattr(submission.spark_hook, "on_kill", no_command)
    try:
        submission.kill()
        assert psutil.wait_procs([process], timeout=10)[1] == []
    finally:
        application.kill()
        application.wait()
    assert "the worker needs the command yarn" in caplog.text


def test_hook_whose_answer_cannot_be_removed_still_returns_it(
    fake_spark_submit, tmp_path, monkeypatch, caplog
):
    def refuse(files, uri):
        raise PermissionError("nothing may be removed")

    monkeypatch.setattr(Files, "remove", refuse)
    hook = fake_spark_submit(ANSWERING.format(root=ROOT, answer="has_data=True", code=0))

    assert hook.submit(StreamHasData("s")).has_data is True
    assert "its answer cannot be removed" in caplog.text


class Session:
    """A session over Spark Connect that has lost its server."""

    is_stopped = False

    def interruptAll(self):  # noqa: N802 - Spark's own name
        assert not self.is_stopped
        raise ConnectionError("the channel is closed")

    def stop(self):
        self.is_stopped = True


def test_hook_killed_over_connect_keeps_the_error_of_the_task(monkeypatch, caplog):
    connection = CdcConnection("c", "file:///s")
    submission = ConnectSubmission(request_for(connection, StreamHasData("s")), connection)
    monkeypatch.setattr(submission, "_new_session", Session)

    def late(request, session, options, new_session):
        submission.kill()
        raise AirflowTaskTimeout("late")

    monkeypatch.setattr("airflow_provider_cdc.hooks.connect_submission.run", late)
    with pytest.raises(AirflowTaskTimeout):
        submission.run()
    assert "did not interrupt the job" in caplog.text
    caplog.clear()
    submission.kill()
    assert caplog.text == ""


def test_end_of_sessions_over_connect_leaves_no_warnings_of_the_client(monkeypatch):
    client, shown = logging.getLogger("pyspark.sql.connect.logging"), []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: shown.append(record.getMessage()))
    # Airflow's own configuration may have disabled it.
    monkeypatch.setattr(client, "disabled", False)
    monkeypatch.setattr(client, "handlers", [handler])
    client.setLevel(logging.WARNING)

    class WarningSession(Session):
        def stop(self):
            client.warning("ReleaseExecute failed with exception")
            client.error("the session was lost")

    connection = CdcConnection("c", "file:///s")
    submission = ConnectSubmission(request_for(connection, StreamHasData("s")), connection)
    monkeypatch.setattr(submission, "_new_session", WarningSession)
    monkeypatch.setattr(
        "airflow_provider_cdc.hooks.connect_submission.run", lambda *_, **__: Answer("r")
    )
    submission.run()

    assert shown == ["the session was lost"]
    client.warning("a later one")
    assert shown[1:] == ["a later one"]


def test_kill_over_connect_ends_every_session_of_the_job(monkeypatch):
    connection = CdcConnection("c", "file:///s")
    submission = ConnectSubmission(request_for(connection, StreamHasData("s")), connection)
    monkeypatch.setattr(submission, "_new_session", Session)

    def several(request, session, options, new_session):
        others = [new_session(), new_session()]
        submission.kill()
        assert [each.is_stopped for each in (session, *others)] == [False, True, True]
        with pytest.raises(CdcJobFailed, match="was killed before"):
            new_session()
        return Answer(request.request_id)

    monkeypatch.setattr("airflow_provider_cdc.hooks.connect_submission.run", several)
    assert submission.run().error is None


def test_answer_written_and_read_is_the_same(tmp_path):
    answer = Answer("0" * 32, error=JobError("kind", "message", True))

    write_answer(tmp_path.as_uri(), answer)

    assert read_answer(tmp_path.as_uri(), "0" * 32) == answer


def test_answer_not_given_reads_as_none(tmp_path):
    assert read_answer(tmp_path.as_uri(), "1" * 32) is None


@pytest.mark.parametrize("request_id", ["", "../../etc/passwd", "A" * 32, "0" * 31])
def test_answer_under_a_malformed_id_is_refused(tmp_path, request_id):
    with pytest.raises(InvalidRequest, match="has no valid id"):
        read_answer(tmp_path.as_uri(), request_id)


def test_environment_variable_without_an_object_is_refused_but_not_shown():
    with pytest.raises(ValueError, match="OPTIONS: is not a JSON object") as caught:
        entry_point.json_object({"OPTIONS": f'"{SECRET}"'}, "OPTIONS")

    assert SECRET not in str(caught.value)


def test_environment_variable_not_set_is_an_empty_object():
    assert entry_point.json_object({}, "OPTIONS") == {}
