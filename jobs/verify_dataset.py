"""Check a published dataset: `python jobs/verify_dataset.py --config configs/demo.yaml`."""

import argparse
import json
import sys
from pathlib import Path

# A script's import path is its own folder; `pipeline` and `lvspec` lie beside `jobs`, installed or
# not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipeline.config import load_config
from pipeline.dataset import Dataset
from pipeline.errors import ConfigError
from pipeline.lock import held_by
from pipeline.secrets import scrub
from pipeline.summary import amount
from pipeline.verify import CODES, Verified, verify

WHOLE, DAMAGED = 0, 1  # 2 belongs to ConfigError

EPILOG = """\
examples:
  ... demo_output
  ... s3://bucket/captions --config configs/x.yaml      (its `storage:` says how to reach it)
  ... --config configs/x.yaml                           (the output of that job)

what may be found:
{codes}

exit codes:
  0  the dataset is what its runs wrote
  1  it is not; each finding is one line
  2  bad arguments, or no dataset there
"""


def main(arguments: list[str] | None = None, *, prog: str | None = None) -> int:
    """Verify a dataset; returns the exit code."""
    options = command_line(prog).parse_args(arguments)
    try:
        settings = load_config(options.config, options.set) if options.config else None
        output = options.dataset or (settings and settings.output)
        if not output:
            raise ConfigError("name a dataset, or a --config with an `output`")
        storage = settings.storage if settings else {}
        dataset = Dataset.open(output, storage)
        if not dataset.exists(dataset.path("dataset.json")):
            raise ConfigError(f"there is no dataset at {output}: it has no dataset.json")
        owner = held_by(output, storage)
        result = verify(dataset)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {type(error).__name__}: {scrub(str(error))}", file=sys.stderr)
        return ConfigError.exit_code
    if owner is not None:
        print(f"note: in use by {owner}; what it writes now may show below", file=sys.stderr)
    print(json.dumps(result.to_json()) if options.json else table(result))
    return DAMAGED if result.findings else WHOLE


def table(result: Verified) -> str:
    """What was looked at, then one line per finding."""
    seen = f"{amount(result.runs, 'run')}, {amount(result.files, 'file')}, {result.rows} rows"
    if not result.findings:
        return f"{seen}: all as written"
    lines = [f"{finding.code}  {finding.where}: {finding.message}" for finding in result.findings]
    return "\n".join([f"{seen}: {amount(len(lines), 'finding')}", *lines])


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    codes = "\n".join(f"  {code:<16} {meaning}" for code, meaning in CODES.items())
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Check that a published dataset is what its runs wrote: files and checksums, "
        "counts, schema, and that every clip id is there once.",
        epilog=EPILOG.format(codes=codes),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dataset", nargs="?", help="a folder or URI; default: the config's output")
    parser.add_argument("--config", help="a YAML file of the job, for `output` and `storage`")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
