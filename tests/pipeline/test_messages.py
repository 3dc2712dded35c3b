"""Messages as lines, and as JSON objects."""

import io
import json
import logging
from datetime import datetime

from pipeline.messages import Messages
from pipeline.progress import Shown


def test_text_is_the_line_itself() -> None:
    out = io.StringIO()
    say = Messages(out)
    say.run_id = "r1"
    say("plan: 3 clips", "planned", planned=3)
    say.event("published", "published", tokens=4)
    assert out.getvalue() == "plan: 3 clips\n"


def test_json_is_one_object_a_line_with_the_run() -> None:
    out = io.StringIO()
    say = Messages(out, "json")
    say("two\nlines", "failed", level=logging.ERROR, exit_code=2)
    say.run_id = "r1"
    say("plan: 3 clips", "planned", planned=3)
    say.event("published", "published", tokens=4)
    first, second, third = map(json.loads, out.getvalue().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "error", "event": "failed", "exit_code": 2, "message": "two\nlines"}
    assert datetime.fromisoformat(second.pop("time")).tzinfo is not None
    assert second == {
        "level": "info", "event": "planned", "run_id": "r1", "planned": 3,
        "message": "plan: 3 clips",
    }  # fmt: skip
    assert (third["event"], third["tokens"]) == ("published", 4)


def test_json_holds_no_signature() -> None:
    out = io.StringIO()
    Messages(out, "json")("read https://b/a.mp4?X-Amz-Signature=abc (403)", "clip_failed")
    assert json.loads(out.getvalue())["message"] == "read https://b/a.mp4?X-Amz-Signature=*** (403)"


def test_progress_has_its_numbers() -> None:
    out = io.StringIO()
    Messages(out, "json").progress(Shown("caption", "clips", 50, 100, 10, 5.0))
    found = json.loads(out.getvalue())
    assert (found["event"], found["stage"], found["unit"]) == ("progress", "caption", "clips")
    assert (found["done"], found["total"], found["per_s"], found["left_s"]) == (50, 100, 2.0, 25.0)
    assert found["message"] == "caption: 50/100 clips  2.0 clips/s  25 s left"


def test_what_other_libraries_log_takes_the_same_form() -> None:
    out = io.StringIO()
    logger = logging.getLogger("tests.some_library")
    Messages(out, "json").take_over("tests.some_library")
    try:
        try:
            raise ValueError("why")
        except ValueError:
            logger.exception("it went wrong")
    finally:
        logger.handlers = []
    found = json.loads(out.getvalue())
    assert (found["level"], found["event"]) == ("error", "tests.some_library")
    assert found["message"].startswith("it went wrong: Traceback")
    assert found["message"].endswith("ValueError: why")
