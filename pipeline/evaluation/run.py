"""Decoding the items of a benchmark by every method, in turn, and logging what came.

Methods take turns on groups of items, so a machine whose speed drifts slows all of them alike; one
engine lives at a time, so a method's peak memory is its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from lvspec import DecodeSettings, Engine, Pair, Refusal, Request, VideoError
from lvspec.benchmark.methods import methods
from lvspec.types import Generation
from lvspec.video import FrameSpec, read_clip
from pipeline.config import as_tree
from pipeline.evaluation.items import Item
from pipeline.evaluation.log import Answer, AnswerLog
from pipeline.evaluation.settings import BenchmarkSettings, EvalSettings

Say = Callable[[str], None]


def answers_depend_on(settings: EvalSettings) -> dict[str, Any]:
    """What must not change under a log. More methods, more items and a judge may come later."""
    tree = as_tree(settings)
    shown = {b.name: {**as_tree(b), "limit": None} for b in settings.benchmarks}
    return {"models": tree["models"], "decoding": tree["decoding"], **shown}


def all_methods(settings: EvalSettings) -> dict[str, DecodeSettings]:
    """The methods that are asked for, plain decoding first."""
    known = methods(settings.decoding)
    names = dict.fromkeys(["plain", *settings.methods])
    return {name: known[name].settings for name in names}


def decode(
    pair: Pair,
    settings: EvalSettings,
    benchmark: BenchmarkSettings,
    items: Sequence[Item],
    log: AnswerLog,
    say: Say,
) -> None:
    """Answer every item by every method; what the log holds is not done again."""
    chosen = all_methods(settings)
    frames = benchmark.frames
    spec = pair.target.frame_spec(
        pair.target.processor, frames.count, frames.min_pixels, frames.max_pixels
    )
    for start in range(0, len(items), settings.group):
        group = items[start : start + settings.group]
        missing = {
            name: [i for i in group if (benchmark.name, i.id, name) not in log.answers]
            for name in chosen
        }
        if not any(missing.values()):
            continue
        requests, failed = _read(group, spec, benchmark)
        for name, decoding in chosen.items():
            for item in missing[name]:
                if item.id in failed:
                    log.add(Answer(benchmark.name, item.id, name, error=failed[item.id]))
            wanted = [requests[i.id] for i in missing[name] if i.id in requests]
            for answer in _decode(pair, decoding, benchmark.name, name, wanted):
                log.add(answer)
        say(f"{benchmark.name}: {start + len(group)} of {len(items)} items")


def _read(
    group: Sequence[Item], spec: FrameSpec, benchmark: BenchmarkSettings
) -> tuple[dict[str, Request], dict[str, str]]:
    """Requests of the items whose video can be read, and why the others cannot."""
    requests: dict[str, Request] = {}
    failed: dict[str, str] = {}
    for item in group:
        try:
            clip = read_clip(item.video, spec)
        except VideoError as error:
            failed[item.id] = f"{error.code}: {error}"
            continue
        requests[item.id] = Request(
            item.id, clip.frames, clip.times_s, item.prompt, benchmark.max_new_tokens
        )
    return requests, failed


def _decode(
    pair: Pair, decoding: DecodeSettings, benchmark: str, method: str, wanted: list[Request]
) -> Iterator[Answer]:
    if not wanted:
        return
    longest = max(request.max_new_tokens or 1 for request in wanted)
    engine = Engine(pair, replace(decoding, max_new_tokens=longest))
    _forget_peak()
    for result in engine.run(wanted):
        yield _answer(benchmark, method, result, _peak_bytes())


def _answer(benchmark: str, method: str, result: Generation | Refusal, peak: int) -> Answer:
    if isinstance(result, Refusal):
        error = f"{result.code}: {result.message}"
        return Answer(benchmark, result.request_id, method, error=error)
    stats = result.stats
    return Answer(
        benchmark,
        result.request_id,
        method,
        text=result.text,
        token_ids=result.token_ids,
        prefill_s=stats.prefill_s,
        decode_s=stats.decode_s,
        rounds=stats.num_spec_steps,
        drafted=stats.num_draft_tokens,
        accepted=stats.num_accepted_draft_tokens,
        peak_bytes=peak,
    )


def _forget_peak() -> None:
    """Peaks are counted from here: of the devices, or of this process where there are none."""
    for device in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(device)
    if not torch.cuda.is_available() and Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets VmHWM


def _peak_bytes() -> int:
    """Bytes at the peak since; 0 where the system does not tell."""
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        return sum(torch.cuda.max_memory_allocated(device) for device in range(count))
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return peaks[0] if peaks else 0
