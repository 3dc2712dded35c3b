"""What workers log: one JSON object a line on their stderr, which Ray keeps in the log files of the
session; a driver that logs JSON repeats them (`repeated_by`).
"""

import json
import logging
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeline.messages import Messages

DEFAULT = "ray_print_logs"  # Ray's own printer of what workers write
QUIET_S, MOST_S = 1.0, 5.0  # Ray looks at its log files several times a second


def log_event(event: str, message: str, **fields: Any) -> None:
    """Say that something happened in this worker."""
    if _in_ray():
        Messages(sys.stderr, "json")(message, event, **fields)


def log_failures(rows: list[dict[str, Any]], stage: str, run_id: str) -> None:
    """A line for each of these rows that failed in this stage."""
    for row in rows:
        if row.get("error_code") and row["error_stage"] == stage and _in_ray():
            Messages(sys.stderr, "json")(
                row["error_message"],
                "clip_failed",
                level=logging.WARNING,
                run_id=run_id,
                clip_id=row["clip_id"],
                stage=stage,
                code=row["error_code"],
            )


@contextmanager
def repeated_by(say: Messages) -> Generator[None]:
    """Repeat what the workers of the Ray that this process is connected to log, with where they
    are; their other output stays in Ray's files. Ray has no public way to read it unprinted.
    """
    from ray._private.ray_logging import (  # noqa: PLC0415  # a job may end without Ray
        global_worker_stdstream_dispatcher as dispatcher,
    )

    heard = time.monotonic()

    def repeat(data: Mapping[str, Any]) -> None:
        nonlocal heard
        for line in data["lines"]:
            fields = _parsed(line)
            if fields is not None:
                heard = time.monotonic()
                about = {**fields, "node": data["ip"], "pid": int(data["pid"])}
                say.out.write(json.dumps(about, ensure_ascii=False) + "\n")
                say.out.flush()

    dispatcher.remove_handler(DEFAULT)
    dispatcher.add_handler("lvspec", repeat)
    try:
        yield
        heard = time.monotonic()  # the last lines are still under way; not so where it was stopped
        end = heard + MOST_S
        while time.monotonic() < min(end, heard + QUIET_S):
            time.sleep(0.1)
    finally:
        dispatcher.remove_handler("lvspec")


def _parsed(line: str) -> dict[str, Any] | None:
    """The fields of a line of `log_event`; None for any other."""
    if not line.startswith('{"time": '):
        return None
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and "event" in fields else None


def _in_ray() -> bool:
    ray = sys.modules.get("ray")  # not imported for this: stages also run without
    return ray is not None and ray.is_initialized()
