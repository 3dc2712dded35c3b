"""The command `lvspec`: one way in for people, each word a job script or `python -m lvspec`.

Only what a command needs is imported, so that `lvspec plan` does not wait for torch.
"""

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """module: has `main(arguments, prog=)` and `command_line(prog)`. given: the arguments that the
    word stands for.
    """

    module: str
    help: str
    given: tuple[str, ...] = ()


_CORPUS = "jobs.caption_corpus"
COMMANDS = {
    "caption": Command("lvspec.__main__", "caption one video file and show how", ("caption",)),
    "plan": Command(_CORPUS, "count what a run would caption", ("--dry-run",)),
    "run": Command(_CORPUS, "caption what is new in a corpus (first resumes what was begun)"),
    "resume": Command(_CORPUS, "finish a run that was begun, nothing else", ("--resume-only",)),
    "retry-failed": Command(
        _CORPUS, "try failed clips again: all, or `CODE,CODE`", ("--retry-failed",)
    ),
    "verify": Command("jobs.verify_dataset", "check a published dataset"),
    "bench decode": Command("jobs.benchmark_decode", "measure decoding methods"),
    "bench throughput": Command("jobs.benchmark_throughput", "measure the plan on a cluster"),
    "evaluate": Command("jobs.evaluate", "score decoding methods on benchmarks of videos"),
    "config check": Command(
        _CORPUS, "check a config, its models and its output", ("--check-config",)
    ),
    "config show": Command(_CORPUS, "print a config with all its defaults", ("--print-config",)),
    "demo-corpus": Command("jobs.make_demo_corpus", "write a small corpus of videos to try it on"),
}
SHELLS = ("bash", "zsh", "tcsh")

EPILOG = """\
examples:
  lvspec caption video.mp4
  lvspec demo-corpus
  lvspec plan --config configs/demo.yaml
  lvspec run --config configs/demo.yaml --set output=/data/captions
  lvspec retry-failed missing_file,read_failed --config configs/demo.yaml
  lvspec verify --config configs/demo.yaml

Each COMMAND has its own --help. On a cluster the same work is submitted as
`ray job submit --working-dir . -- python jobs/caption_corpus.py ...`.
Completion of words and options in a shell, once: lvspec completion bash > \
~/.local/share/bash-completion/completions/lvspec
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in COMMANDS:
            command = COMMANDS[name]
            rest = [*command.given, *words[count:]]
            return _load(command, "main")(rest, prog=_prog(name, command))
    options = _parser().parse_args(words)
    print(_completion(options.shell), end="")
    return 0


def _prog(name: str, command: Command) -> str:
    # `python -m lvspec` has commands of its own, of which the word is one
    return "lvspec" if command.given == (name,) else f"lvspec {name}"


def _load(command: Command, name: str) -> Callable[..., Any]:
    try:
        return getattr(importlib.import_module(command.module), name)
    except ModuleNotFoundError as error:
        sys.exit(f"error: {error}; install what this command needs: pip install 'lvspec[pipeline]'")


def _parser() -> argparse.ArgumentParser:
    """What is said of all commands; those with a module of their own are never parsed here."""
    parser = argparse.ArgumentParser(
        prog="lvspec",
        description="Caption videos, and whole corpora, with loosely speculative decoding.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words = parser.add_subparsers(required=True, metavar="COMMAND")
    for first in dict.fromkeys(name.split()[0] for name in COMMANDS):
        below = {name: c for name, c in COMMANDS.items() if name.split()[0] == first}
        if list(below) == [first]:
            words.add_parser(first, help=COMMANDS[first].help, add_help=False)
            continue
        helps = "; ".join(f"{name.split()[1]}: {c.help}" for name, c in below.items())
        group = words.add_parser(first, help=helps).add_subparsers(required=True, metavar="WORD")
        for name, command in below.items():
            group.add_parser(name.split()[1], help=command.help, add_help=False)
    shell = words.add_parser("completion", help="print the completion script of a shell")
    shell.add_argument("shell", choices=SHELLS)
    return parser


def _completion(shell: str) -> str:
    """The script that completes all commands and their options in a shell."""
    import shtab  # noqa: PLC0415  # needed by this command alone

    parser = argparse.ArgumentParser(prog="lvspec")
    words = parser.add_subparsers()
    groups: dict[str, Any] = {}
    for name, command in COMMANDS.items():
        first, _, second = name.partition(" ")
        if second and first not in groups:
            groups[first] = words.add_parser(first).add_subparsers()
        own = _load(command, "command_line")(f"lvspec {name}")
        where = groups[first] if second else words
        where.add_parser(second or first, parents=[own], add_help=False, help=command.help)
    words.add_parser("completion").add_argument("shell", choices=SHELLS)
    return shtab.complete(parser, shell=shell)


if __name__ == "__main__":
    sys.exit(main())
