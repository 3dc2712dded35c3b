"""Benchmarks under several decoding methods; see `--help`."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import lvspec
from pipeline.errors import ConfigError, JobError
from pipeline.evaluation import demo, report, run
from pipeline.evaluation.items import Item, read_items
from pipeline.evaluation.judge import Case, JudgeCache, judge
from pipeline.evaluation.log import AnswerLog
from pipeline.evaluation.settings import BenchmarkSettings, EvalSettings, load_eval_config

EXAMPLES = """\
examples:
  the offline benchmark with the embedded pair, some minutes on two cores
    python jobs/evaluate.py --write-demo eval_demo
    python jobs/evaluate.py --config configs/eval_demo.yaml
  the paper's settings, where the benchmarks' files lie
    ... --config configs/eval_qwen2_5_vl_32b.yaml --set output=results/qwen
  open captions scored by a judge; the key is taken from OPENAI_API_KEY
    ... --set judge.url=https://api.openai.com/v1 --set judge.model=gpt-4o-2024-11-20 \\
        --set judge.dollars_in=2.5 --set judge.dollars_out=10

running it again:
  Answers are logged one by one in OUTPUT/answers.jsonl and judgements in OUTPUT/judge: a run that
  was killed goes on where it was. More methods, benchmarks or a judge may be added to an output.

exit codes:
  0  done
  1  stopped (a judge that does not answer): what is there stays, run it again
  2  bad config, items or models; nothing was decoded
  4  answers are missing, or a multiple choice differs from plain decoding's
"""


def main(arguments: list[str] | None = None, *, prog: str | None = None) -> int:
    """Run the evaluation; returns the exit code."""
    options = command_line(prog).parse_args(arguments)
    try:
        if options.write_demo:
            demo.write(options.write_demo, options.scenes)
            print(f"{options.write_demo}: {options.scenes} videos, captions.jsonl, choices.jsonl")
            return 0
        if not options.config:
            raise ConfigError("--config is needed, or --write-demo")
        return evaluate(load_eval_config(options.config, options.set))
    except JobError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def evaluate(settings: EvalSettings) -> int:
    """Decode what is missing, judge, and print the table."""
    items = {b.name: read_items(b) for b in settings.benchmarks}
    output = Path(settings.output)
    log = AnswerLog(output, run.answers_depend_on(settings))
    names = list(run.all_methods(settings))
    try:
        pair = lvspec.load(settings.models)
    except lvspec.LoadError as error:
        raise ConfigError(str(error)) from error
    for benchmark in settings.benchmarks:
        run.decode(pair, settings, benchmark, items[benchmark.name], log, _say)
    points: list[report.Row] = []
    for benchmark in settings.benchmarks:
        asked = items[benchmark.name]
        judged = _judged(settings, benchmark, asked, names, log)
        points += report.rows(benchmark, asked, names, log.answers, judged)
    report.save(output, points, settings.models.target)
    print(report.table(points, settings.models.target))
    return 0


def _judged(
    settings: EvalSettings,
    benchmark: BenchmarkSettings,
    items: list[Item],
    names: list[str],
    log: AnswerLog,
) -> report.Judged | None:
    """Every answer's score by the judge, where there is one."""
    if settings.judge is None or benchmark.kind != "caption":
        return None
    cache = JudgeCache(Path(settings.output) / "judge", settings.judge.model)

    def case(item: Item, text: str) -> Case:
        return Case(benchmark.judge, item.question, item.reference, text)

    said = [(item, log.answers[benchmark.name, item.id, name]) for item in items for name in names]
    cases = [case(item, answer.text) for item, answer in said if not answer.error]
    judge(settings.judge, cases, cache, say=_say)

    def score(item: Item, text: str) -> int:
        found = cache.get(case(item, text))
        assert found is not None  # judge() raises for what it could not judge
        return found

    return score


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Score decoding methods on benchmarks of video understanding.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, help="a file like configs/eval_demo.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--write-demo", type=Path, metavar="FOLDER", help="write demo benchmarks")
    parser.add_argument("--scenes", type=int, default=32, help="demo scenes to write (32)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
