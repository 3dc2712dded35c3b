"""Caption a video corpus: `python jobs/caption_corpus.py --config configs/demo.yaml`."""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

# A script's import path is its own folder; `pipeline` and `lvspec` lie beside `jobs`, installed or
# not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lvspec.types import REFUSALS
from pipeline.backend import LVSPEC, Backend
from pipeline.config import JobSettings, load_config, to_yaml
from pipeline.corpus import DryRun, caption_corpus, check, dry_run
from pipeline.decoding.types import CODES
from pipeline.environment import is_submitted
from pipeline.errors import ConfigError, JobError, SignalError, StoppedError
from pipeline.increments import Retry
from pipeline.messages import Messages
from pipeline.secrets import scrub
from pipeline.signals import ending_on_signals
from pipeline.storage import absolute, is_local
from pipeline.summary import RunSummary, amount

DONE, TOO_MANY_ERRORS = 0, 3  # the others belong to pipeline.errors

EXAMPLES = """\
examples:
  caption the demo corpus on this machine (write it first: python jobs/make_demo_corpus.py)
    python jobs/caption_corpus.py --config configs/demo.yaml
  another source and output, without touching the file
    ... --set source.prefix=s3://bucket/videos --set output=s3://bucket/captions
  see what would be captioned, or the whole configuration with its defaults
    ... --dry-run        ... --print-config
  on the cluster that RAY_ADDRESS names, from the folder that holds jobs/ (Ray wants a token)
    RAY_AUTH_MODE=token ray job submit --working-dir . -- \\
        python jobs/caption_corpus.py --config configs/qwen2_5_vl_7b.yaml

running it again:
  A run that was killed is resumed where it last committed. Otherwise only clips that are new, or
  whose file changed, are captioned; where there is nothing new it says so and ends in seconds.
  Rows of deleted videos stay, and are counted. Failed clips are tried again only when asked:
    ... --retry-failed        ... --retry-failed=missing_file,read_failed

exit codes:
    0  done (also: nothing new)
    1  stopped by something that is no clip's fault; what is committed stays, run it again to resume
    2  bad config, source or models, or a cluster that could never run it; no clip was captioned
    3  published, but more clips failed than run.max_error_share allows
    4  rows and plan do not match; nothing was published
    5  another driver works on this output; nothing was started
  130  SIGINT (Ctrl-C), and
  143  SIGTERM (preemption, ray job stop, scancel): what is committed stays, run it again to resume
  What a scheduler should do with each: docs/operate.md
"""


def main(
    arguments: list[str] | None = None, backend: Backend = LVSPEC, *, prog: str | None = None
) -> int:
    """Run the job; returns the exit code."""
    options = command_line(prog).parse_args(arguments)
    say = Messages(sys.stderr, options.log_format)
    try:
        settings = load_config(options.config, options.set)
        if options.print_config:
            print(to_yaml(settings), end="")
            return DONE
        if options.check_config:
            check(settings, backend)
            print(f"{options.config}: settings, models and output can be used")
            return DONE
        if options.dry_run:
            plan = dry_run(settings, options.retry_failed, backend)
            _print_dry_run(settings, plan, options.json)
            return DONE
        _note_relative_output(settings, say)
        with ending_on_signals():
            summary = caption_corpus(
                settings,
                retry=options.retry_failed,
                resume_only=options.resume_only,
                backend=backend,
                log_format=options.log_format,
            )
    except (
        OSError
    ) as error:  # the output, before Ray starts: a source's errors have their own class
        message = f"error: output: {type(error).__name__}: {scrub(str(error))}"
        _say_error(say, message, ConfigError.exit_code)
        return ConfigError.exit_code
    except JobError as error:
        return _report(error, say)
    return _conclude(settings, summary, say, as_json=options.json)


def _conclude(settings: JobSettings, summary: RunSummary, say: Messages, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(summary.to_json()))
    else:
        print(table(summary))
    if summary.error_share > settings.run.max_error_share:
        _say_error(
            say,
            f"error: {summary.error_share:.1%} of the clips failed, run.max_error_share is "
            f"{settings.run.max_error_share:.1%}; see {settings.output}/errors",
            TOO_MANY_ERRORS,
        )
        return TOO_MANY_ERRORS
    return DONE


def _report(error: JobError, say: Messages) -> int:
    resume = "what is committed stays: run the same command to resume"
    if isinstance(error, SignalError):
        _say_error(say, f"{error}; {resume}", error.exit_code)
    else:
        _say_error(say, f"error: {error}", error.exit_code)
        if isinstance(error, StoppedError):
            say(resume)
    return error.exit_code


def _say_error(say: Messages, line: str, exit_code: int) -> None:
    say(line, "failed", level=logging.ERROR, exit_code=exit_code)


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Caption what is new in a video corpus, as a Parquet dataset.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", required=True, help="a YAML file, such as configs/demo.yaml")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting by its dotted path; may be repeated",
    )
    parser.add_argument(
        "--retry-failed",
        nargs="?",
        const=Retry(),
        type=_retry,
        metavar="CODE,CODE",
        help="try failed clips again, and nothing else: all, or those with one of these codes",
    )
    parser.add_argument(
        "--resume-only", action="store_true", help="finish a run that was begun, plan nothing new"
    )
    parser.add_argument("--dry-run", action="store_true", help="count what would be captioned")
    parser.add_argument(
        "--check-config", action="store_true", help="check settings, models and output, and stop"
    )
    parser.add_argument("--print-config", action="store_true", help="print all settings and stop")
    parser.add_argument(
        "--json", action="store_true", help="the last line of stdout is the run's summary as JSON"
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="json: each message on stderr is one JSON object a line (docs/watch.md)",
    )
    return parser


def _retry(text: str) -> Retry:
    codes = frozenset(filter(None, (code.strip() for code in text.split(","))))
    if not codes:
        raise argparse.ArgumentTypeError("expected error codes, such as missing_file,read_failed")
    if unknown := sorted(codes - CODES.keys() - REFUSALS.keys()):
        known = ", ".join(sorted(CODES.keys() | REFUSALS.keys()))
        raise argparse.ArgumentTypeError(
            f"no such error code: {', '.join(unknown)}; known: {known}"
        )
    return Retry(codes)


def _print_dry_run(settings: JobSettings, plan: DryRun, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"dry_run": True, "output": settings.output, **plan.to_json()}))
        return
    if plan.unfinished:
        done = f"{amount(plan.committed, 'clip')} of it captioned already, not counted below"
        print(f"run {plan.unfinished} is unfinished and would be resumed first ({done})")
    counts = plan.counts
    listed = amount(counts.listed, plan.unit)
    print(f"{listed} in the source, {counts.held} already in {settings.output}")
    again = f" ({counts.replacing} of them because their file or prompt changed)"
    done = "captioned" if plan.unit == "clip" else "cut and captioned"
    print(f"{counts.planned} would be {done}{again if counts.replacing else ''}")
    if plan.deleted.rows:
        gone = amount(plan.deleted.rows, "clip")
        print(f"{gone} in the dataset have lost their video: their rows stay")


def _note_relative_output(settings: JobSettings, say: Messages) -> None:
    if is_submitted(os.environ) and absolute(settings.output) != settings.output:
        say(
            f"note: output {settings.output!r} is relative: it lies in the job's copy of the "
            "working directory and goes with the cluster; set an absolute path or a URL to keep it"
        )


def table(summary: RunSummary) -> str:
    """The run at a glance, for a terminal."""
    codes = ", ".join(f"{count} {code}" for code, count in summary.failed_by_code.items())
    rows = [("clips", str(summary.manifest_rows))]
    if summary.manifest_rows:
        rows += [
            (
                "ok / failed",
                f"{summary.succeeded} / {summary.failed}" + (f" ({codes})" if codes else ""),
            ),
            ("tokens", f"{summary.tokens:,}"),
            ("mean accepted length", _figure(summary.mean_accepted_length, " tokens per round")),
            ("speedup (estimated)", _figure(summary.speedup, " x plain decoding")),
            ("clips/s", _figure(summary.clips_per_s, "")),
        ]
    for flag, count in (("truncated", summary.truncated), ("degenerate", summary.degenerate)):
        if count:
            rows.append((flag, f"{count} (column `{flag}`)"))
    if summary.already_held:
        rows.append(("already there", str(summary.already_held)))
    if summary.deleted:
        rows.append(("deleted videos", f"{summary.deleted} (their rows stay)"))
    place = absolute(summary.output) if is_local(summary.output) else summary.output
    rows.append(("dataset", f"{place}/captions"))
    if summary.failed:
        rows.append(("errors", f"{place}/errors"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2f}{unit}"


if __name__ == "__main__":
    sys.exit(main())
