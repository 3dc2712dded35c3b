"""Which Ray a job runs on: the cluster it was submitted to, or a local one for the length of the job."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

ROOT = Path(__file__).resolve().parent.parent  # the folder that holds `pipeline` and `lvspec`
SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by `ray job submit` for the entrypoint
LEAST_CPUS = (
    2  # the plan fits two: one for Ray's checkpoint filter on a resume, one for tasks in turn
)


@contextmanager
def connect() -> Iterator[None]:
    """Connect to Ray, unless the process is connected already; leave as found."""
    if ray.is_initialized():
        yield
        return
    ray.init(**_arguments(os.environ))
    for name in ("ray.data", "ray.data._internal"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        ray.shutdown()


def _arguments(environ: "os._Environ[str]") -> dict[str, Any]:
    quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
    if SUBMITTED in environ:  # the submission brought the working directory with it
        return {"address": "auto", **quiet}
    # Workers import `pipeline` and `lvspec` from where this process did, whatever its working directory.
    if environ.get("RAY_ADDRESS"):
        return {"address": "auto", "runtime_env": {"working_dir": str(ROOT)}, **quiet}
    path = os.pathsep.join([str(ROOT), *filter(None, [environ.get("PYTHONPATH")])])
    return {
        "num_cpus": max(LEAST_CPUS, os.cpu_count() or 1),
        "include_dashboard": False,
        "runtime_env": {"env_vars": {"PYTHONPATH": path}},
        **quiet,
    }
