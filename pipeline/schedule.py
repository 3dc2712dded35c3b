"""How a run's clips are dealt to its caption actors: how many per block, how many calls at once.

Three costs pull apart. A task of Ray's costs the driver some 25 ms of one core, so blocks should be
large. At the end of a run actors wait for the last block of one of them, so blocks should be small
beside an actor's share. And an engine whose call ends runs dry before the next begins, so calls
overlap. docs/throughput.md has the measurements.
"""

from dataclasses import dataclass

from lvspec.video import FrameSpec
from pipeline.config import JobSettings

BLOCKS_PER_ACTOR = (
    32  # the last block is then 1/32 of an actor's work; on average half is waited for
)
CLIPS_PER_SLOT = (
    4  # held by an actor, decoded; 1 leaves half the slots idle where lengths differ 10x
)
BLOCK_BYTES = 128 * 1024 * 1024  # Ray Data cuts what a decode task yields at this size, and copies
# frames where it has to cut and join pieces again for one call


@dataclass(frozen=True)
class Schedule:
    """rows_per_block: clips that one task decodes and one caption call gets, at most.

    calls_per_actor: caption calls at once in an actor, each of one block; they share its slots.
    """

    rows_per_block: int
    calls_per_actor: int


def plan_schedule(settings: JobSettings, spec: FrameSpec, rows: int) -> Schedule:
    """For `rows` clips that are left to caption."""
    _, actors = settings.caption.pool
    clip_bytes = spec.count * spec.max_pixels * 3
    block = min(settings.run.rows_per_commit, BLOCK_BYTES // clip_bytes)
    if actors > 1:
        block = min(block, rows // (actors * BLOCKS_PER_ACTOR))
    block = max(1, block)
    # A call holds its place until its longest clip is done: so many blocks fill the slots although
    # most have but one clip left. More calls than slots are never needed, but for one in waiting.
    slots = settings.decoding.slots
    return Schedule(block, 1 + min(slots, -(-CLIPS_PER_SLOT * slots // block)))
