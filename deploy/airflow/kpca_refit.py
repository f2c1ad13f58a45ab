"""A nightly re-fit for Airflow 2.4 and later: retried where that can help, failed at once where it cannot."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta, timezone

CONFIG = "/etc/kpca-stream/digits.yaml"
PROGRAM = "/opt/kpca-stream/bin/kpca-stream"
FOLDER = "/var/lib/kpca-stream"
RETRIED = frozenset({75, 130, 143})
"""The store was in use, the cluster was lost, or somebody ended it: the next call goes on where it was."""


def outcome(code: int) -> str:
    """What an exit code means to Airflow: done, retry or fail."""
    if code == 0:
        return "done"
    return "retry" if code in RETRIED or code < 0 else "fail"


def refit() -> None:
    """Run the command, and tell Airflow what its exit code means."""
    from airflow.exceptions import AirflowException, AirflowFailException

    code = subprocess.run([PROGRAM, "refit", CONFIG, "--json"], cwd=FOLDER, check=False).returncode  # noqa: S603  the constants above
    if outcome(code) == "retry":
        raise AirflowException(f"exit {code}: try again")
    if outcome(code) == "fail":
        raise AirflowFailException(f"exit {code}: somebody must look; the champion keeps serving")


try:
    from airflow import DAG
    from airflow.operators.python import PythonOperator
except ImportError:  # read without Airflow, as tests do
    DAG = None

if DAG is not None:
    with DAG(
        "kpca_refit",
        schedule="30 2 * * *",
        start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),  # noqa: UP017  Airflow runs on older Pythons too
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 6, "retry_delay": timedelta(minutes=10)},
    ):
        PythonOperator(task_id="refit", python_callable=refit)
