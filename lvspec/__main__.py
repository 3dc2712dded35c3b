"""`python -m lvspec caption video.mp4`: one file, its caption, and how it was decoded."""

import argparse
import json
import os
import sys
from dataclasses import asdict

from transformers.utils import logging as transformers_logging

import lvspec
from lvspec.config import DRAFTERS, POLICY_SETTINGS, DecodeSettings, FrameSettings, ModelSettings
from lvspec.pieces import token_texts

COLORS = {"exact": "32", "loose": "33", "shift": "35", "target": "1"}
MEANING = {
    "exact": "drafted, and the target's own choice",
    "loose": "drafted, kept although the target would have said something else",
    "shift": "drafted, kept because the target's word stands elsewhere in the block",
    "target": "said by the target itself",
}

EXAMPLES = """\
examples:
  with the embedded pair (toy videos of moving shapes: `python jobs/make_demo_corpus.py`)
    python -m lvspec caption demo_corpus/clip_0000.mp4
  with real checkpoints, strictly, as JSON
    python -m lvspec caption video.mp4 --target Qwen/Qwen2.5-VL-7B-Instruct \\
        --draft Qwen/Qwen2.5-VL-3B-Instruct --frames 64 --policy exact --json
"""


def main(arguments: list[str] | None = None, *, prog: str | None = None) -> int:
    """The command; returns the exit code: 0, or 2 with one line that says what was wrong."""
    options = command_line(prog).parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        draft = options.draft or ("demo" if options.target == "demo" else None)
        models = ModelSettings(target=options.target, draft=draft)
        decode = DecodeSettings(
            policy=POLICY_SETTINGS[options.policy](),
            drafter=options.drafter or ("model" if draft else "none"),
            draft_length=options.draft_length,
            keep=options.keep,
            max_new_tokens=options.max_new_tokens,
            slots=1,
        )
        frames = FrameSettings(count=options.frames, max_pixels=options.max_pixels)
        pair = lvspec.load(models)
        result = lvspec.caption(pair, options.video, options.prompt, frames=frames, decode=decode)
    except (lvspec.SettingError, lvspec.LoadError, lvspec.VideoError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(as_json(result) if options.json else as_text(pair, result, _colored(options.color)))
    return 0


def as_text(pair: lvspec.Pair, result: lvspec.Generation, colored: bool) -> str:
    """The caption (tokens coloured by why they were emitted) and the statistics below it."""
    stats = result.stats
    lines = [_paint(pair, result) if colored else result.text, ""]
    if colored:
        lines += [f"\033[{COLORS[reason]}m{reason}\033[0m: {MEANING[reason]}" for reason in COLORS]
    reasons = result.reasons or ()
    counts = ", ".join(f"{reasons.count(reason)} {reason}" for reason in COLORS)
    lines += [
        f"{stats.num_generated_tokens} tokens ({counts}) in {stats.num_spec_steps} rounds, "
        f"ended by {result.finish_reason}",
        f"mean accepted length {stats.mean_accepted_length:.2f}, draft acceptance "
        f"{stats.draft_acceptance_rate:.0%}, speedup {stats.speedup:.2f}x over plain decoding",
        f"video: {stats.num_video_tokens} tokens, {stats.num_draft_video_tokens} for the draft; "
        f"prefill {stats.prefill_s:.2f} s, decoding {stats.decode_s:.2f} s",
    ]
    return "\n".join(lines)


def as_json(result: lvspec.Generation) -> str:
    """Everything of a result, rates included, as one JSON object."""
    stats = result.stats
    rates = {
        "mean_accepted_length": stats.mean_accepted_length,
        "draft_acceptance_rate": stats.draft_acceptance_rate,
        "speedup": stats.speedup,
    }
    return json.dumps({**asdict(result), "stats": {**asdict(stats), **rates}})


def _paint(pair: lvspec.Pair, result: lvspec.Generation) -> str:
    texts = token_texts(pair.target.tokenizer, result.token_ids)
    return "".join(
        f"\033[{COLORS[reason]}m{text}\033[0m"
        for text, reason in zip(texts, result.reasons or (), strict=True)
    )


def _colored(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog=prog or "python -m lvspec", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "caption",
        help="caption one video file",
        description="Caption one video file and show how each token came about.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("video", help="a video file")
    command.add_argument("--prompt", help="what to ask (default: Describe this video.)")
    command.add_argument("--target", default="demo", help="a checkpoint (default: embedded pair)")
    command.add_argument("--draft", help="a smaller one of its family (default: none but for demo)")
    command.add_argument("--policy", choices=POLICY_SETTINGS, default="lvspec")
    command.add_argument("--drafter", choices=DRAFTERS, help="default: model where there is one")
    command.add_argument("--draft-length", type=int, default=10, metavar="K")
    command.add_argument("--keep", type=float, default=0.1, help="share of the video for the draft")
    command.add_argument("--frames", type=int, default=8, help="frames to look at (default 8)")
    command.add_argument("--max-pixels", type=int, help="per frame (default: the processor's)")
    command.add_argument("--max-new-tokens", type=int, default=128)
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
