"""What a job says: lines for people, or one JSON object a line for machines.

The fields of an object: `time` (UTC), `level`, `event` (a stable name), `message`, `run_id` where
there is a run, and what the event is about (`clip_id`, `stage`, `code`, ...). docs/watch.md lists
the events.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TextIO

from tqdm import tqdm

from pipeline.secrets import scrub

LogFormat = Literal["text", "json"]
FIELDS = "fields"  # of a log record: what its JSON object has besides


class Progress(Protocol):
    """What a line of progress is made of."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int | None: ...
    @property
    def rate(self) -> float | None: ...
    @property
    def left_s(self) -> float | None: ...


class JsonFormatter(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = getattr(record, FIELDS, {"event": record.name})
        message = record.getMessage()
        if record.exc_info:
            message += f": {self.formatException(record.exc_info)}"
        about = {
            "time": when,
            "level": record.levelname.lower(),
            **fields,
            "message": scrub(message),
        }
        return json.dumps(about, ensure_ascii=False, default=str)


class Messages:
    """Writes one message at once: to a terminal above the bars that are drawn there."""

    def __init__(self, out: TextIO, log_format: LogFormat = "text") -> None:
        self.out = out
        self.is_json = log_format == "json"
        self.run_id: str | None = None  # of the run that is worked on, said with each event
        self._handler = logging.StreamHandler(out)
        self._handler.setFormatter(JsonFormatter())

    @property
    def is_terminal(self) -> bool:
        return self.out.isatty() and not self.is_json

    def __call__(
        self, line: str, event: str = "note", *, level: int = logging.INFO, **fields: Any
    ) -> None:
        if not self.is_json:
            tqdm.write(line, file=self.out)
            self.out.flush()
            return
        run = {} if self.run_id is None else {"run_id": self.run_id}
        record = logging.LogRecord("lvspec", level, "", 0, line, None, None)
        setattr(record, FIELDS, {"event": event, **run, **fields})
        self._handler.handle(record)

    def event(self, line: str, event: str, **fields: Any) -> None:
        """What only machines are told."""
        if self.is_json:
            self(line, event, **fields)

    def progress(self, shown: Progress) -> None:
        """A line of progress, with its numbers."""
        self(
            str(shown),
            "progress",
            stage=shown.name,
            unit=shown.unit,
            done=shown.done,
            total=shown.total,
            per_s=shown.rate,
            left_s=shown.left_s,
        )

    def take_over(self, *loggers: str) -> None:
        """Let what these loggers say come out in the same form; nothing where that is text."""
        if self.is_json:
            for name in loggers:
                logging.getLogger(name).handlers = [self._handler]
