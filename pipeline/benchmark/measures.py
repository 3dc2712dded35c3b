"""The measures of `jobs/benchmark_throughput.py`, from runs to figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.benchmark.cost import cost
from pipeline.benchmark.subject import Subject, run_bare, run_plan
from pipeline.benchmark.sweep import Run, SweepPoint, SweepSettings


@dataclass(frozen=True)
class Overlap:
    """One round: the bare engine, then the pipeline, on the same clips.

    share: tokens per second of the pipeline over the bare engine's. bare_s + decode_cpu_s is what
    one core takes for captions and decoding; of_sum: the pipeline's time over that.
    """

    bare_tokens_per_s: float
    pipeline_tokens_per_s: float
    share: float
    bare_s: float
    decode_cpu_s: float
    pipeline_s: float
    of_sum: float


def overlap(subject: Subject, assignments: Sequence[str], clips: int, warm: int) -> Overlap:
    bare = run_bare(subject, assignments, clips, warm)
    plan = run_plan(subject, assignments, clips, warm)
    return Overlap(
        bare_tokens_per_s=bare.tokens_per_s,
        pipeline_tokens_per_s=plan.tokens_per_s,
        share=plan.tokens_per_s / bare.tokens_per_s,
        bare_s=bare.window_s,
        decode_cpu_s=bare.decode_cpu_s,
        pipeline_s=plan.window_s,
        of_sum=plan.window_s / (bare.window_s + bare.decode_cpu_s),
    )


def point(subject: Subject, sweep: SweepSettings, chosen: SweepPoint) -> Run:
    """One run of a sweep's point, as its results hold it."""
    bare = run_bare(subject, chosen.assignments, sweep.clips, sweep.warm)
    plan = run_plan(subject, chosen.assignments, sweep.clips, sweep.warm)
    settings = chosen.job(Path("sweep"))
    _, actors = settings.caption.pool
    price = cost(
        plan.clips_per_s, plan.tokens_per_s, actors, settings.caption.num_gpus, sweep.price_per_hour
    )
    clips = sweep.clips
    return {
        "clips_per_s": plan.clips_per_s,
        "tokens_per_s": plan.tokens_per_s,
        "bare_clips_per_s": bare.clips_per_s,
        "bare_tokens_per_s": bare.tokens_per_s,
        "efficiency": plan.tokens_per_s / bare.tokens_per_s / actors,
        **asdict(price),
        "read_s_per_clip": plan.read_s / clips,
        "prefill_s_per_clip": plan.prefill_s / clips,
        "generate_s_per_clip": (plan.engine_s - plan.prefill_s) / clips,
        "engine_busy": plan.engine_s / (plan.span_s * actors),
        "first_s": plan.first_s,
    }
