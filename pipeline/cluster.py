"""Which Ray a job runs on: the cluster it was submitted to, or a local one while the job lasts."""

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray

from pipeline.environment import is_submitted, names_cluster
from pipeline.messages import Messages
from pipeline.worker_log import repeated_by

ROOT = Path(__file__).resolve().parent.parent  # the folder that holds `pipeline` and `lvspec`
LEAST_CPUS = (
    2  # the plan fits two: one for Ray's checkpoint filter on a resume, one for tasks in turn
)
STARTS = 3  # Ray gives a local node 30 s to come up, which a very busy machine can exceed
CHATTER = b"Set ray log level from environment variable"  # what Ray's core says of LOG_LEVEL below


@contextmanager
def connect(say: Messages | None = None, **logical: int) -> Generator[None]:
    """Connect to Ray, unless the process is connected already; leave as found.

    `say`: where it logs JSON, what workers log is repeated there.
    `logical`: num_cpus and num_gpus that a local Ray is to believe in, for benchmarks.
    """
    if ray.is_initialized():
        yield
        return
    # Ray Data's actors have arguments in the object store, which Ray's core logs as an error each
    # time.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    repeating = repeated_by(say) if say is not None and say.is_json else None
    try:
        with ExitStack() as entered:
            arguments = {**_arguments(os.environ), **logical, "log_to_driver": bool(repeating)}
            _start(arguments, lambda: repeating and entered.enter_context(repeating))
            # `StoppedError` says what went wrong.
            logging.getLogger("ray.data").setLevel(logging.CRITICAL)
            if say is not None and say.is_json:
                say.take_over("ray")
            yield
    finally:
        ray.shutdown()


def _start(arguments: Mapping[str, Any], started: Callable[[], object]) -> None:
    """Start Ray or connect to it; `started` is called while its first words are still held back."""
    for attempt in range(1, STARTS + 1):
        try:
            with _own_sigterm(), _without_chatter():
                ray.init(**arguments)
                started()
        except Exception as error:  # Ray raises a bare Exception for "timed out during startup"
            ray.shutdown()
            if attempt == STARTS or "timed out during startup" not in str(error):
                raise
        else:
            return


@contextmanager
def _own_sigterm() -> Generator[None]:
    """Keep this process's handler of SIGTERM: `ray.init` puts one in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where nobody can set handlers, Ray included
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _without_chatter() -> Generator[None]:
    """Leave one known line out of stderr, which Ray's core writes below Python; nothing if the
    start fails.
    """
    sys.stderr.flush()
    kept, fails = os.dup(2), True
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
            fails = False
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            for line in said:
                if fails or CHATTER not in line:
                    os.write(2, line)


def _arguments(environ: MutableMapping[str, str]) -> dict[str, Any]:
    """What `ray.init` needs here, so that workers import `pipeline` and `lvspec` from where this
    process did, whatever its working directory.
    """
    quiet = {"logging_level": logging.ERROR}
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
