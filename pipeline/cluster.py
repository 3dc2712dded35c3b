"""Which Ray a job runs on: the cluster it was submitted to, or a local one while the job lasts."""

import logging
import os
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from pipeline.environment import is_submitted, names_cluster

ROOT = Path(__file__).resolve().parent.parent  # the folder that holds `pipeline` and `lvspec`
LEAST_CPUS = (
    2  # the plan fits two: one for Ray's checkpoint filter on a resume, one for tasks in turn
)
STARTS = 3  # Ray gives a local node 30 s to come up, which a very busy machine can exceed


@contextmanager
def connect() -> Generator[None]:
    """Connect to Ray, unless the process is connected already; leave as found."""
    if ray.is_initialized():
        yield
        return
    # Ray Data's actors have arguments in the object store, which Ray's core logs as an error each
    # time.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    _start(_arguments(os.environ))
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # `StoppedError` says what went wrong
    try:
        yield
    finally:
        ray.shutdown()


def _start(arguments: Mapping[str, Any]) -> None:
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(**arguments)
        except Exception as error:  # Ray raises a bare Exception for "timed out during startup"
            ray.shutdown()
            if attempt == STARTS or "timed out during startup" not in str(error):
                raise
        else:
            return


def _arguments(environ: MutableMapping[str, str]) -> dict[str, Any]:
    """What `ray.init` needs here, so that workers import `pipeline` and `lvspec` from where this
    process did, whatever its working directory.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if is_submitted(environ):  # the submission brought the working directory with it
        return {"address": "auto", **quiet}
    if names_cluster(environ):
        return {"address": "auto", "runtime_env": {"working_dir": str(ROOT)}, **quiet}
    # Inherited by local workers; a runtime_env would say the same and cost each worker a second
    # start.
    path = [str(ROOT), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
    cpus = max(LEAST_CPUS, os.cpu_count() or 1)
    return {"num_cpus": cpus, "include_dashboard": False, **quiet}
