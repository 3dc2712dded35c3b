"""The Ray Data plan of a run, read top to bottom. The only file with `map_batches`, `num_gpus`,
`concurrency`.

One row per clip from read to write: Ray's checkpointing filters ids right after the read and
commits them with each written file, so a fan-out or a filter in between would lose or redo clips.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import ActorPoolStrategy, DataContext
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data.checkpoint import CheckpointConfig
from ray.exceptions import RayError

from lvspec.video import FrameSpec
from pipeline.backend import Backend
from pipeline.commits import CHECKPOINT, CUT_CHECKPOINT
from pipeline.config import JobSettings
from pipeline.dataset import COMPRESSION, Dataset
from pipeline.errors import StoppedError
from pipeline.flow import Flow, Step
from pipeline.samples import chosen_of
from pipeline.schedule import Schedule
from pipeline.schema import CUT, ROWS
from pipeline.sources.manifest import queries_of
from pipeline.stages.caption import Caption
from pipeline.stages.cut import cut_table
from pipeline.stages.decode import decode_table


def cut_run(dataset: Dataset, run_id: str, settings: JobSettings, flow: Flow) -> None:
    """Cut the videos of a run that its checkpoint does not list, into runs/<run_id>/cuts, and keep
    `flow` up to date meanwhile.

    Raises `StoppedError` with the reason.
    """
    with _checkpointed(dataset, run_id, CUT_CHECKPOINT, flow):
        _read(dataset, run_id, "videos", settings.run.rows_per_commit).map_batches(
            partial(
                cut_table,
                run_id=run_id,
                clips=settings.clips,
                memory_mb=settings.video.memory_mb,
                storage=settings.storage,
                queries=_queries(settings),
            ),
            batch_size=None,  # the whole block: one task cuts one commit, video by video
            batch_format="pyarrow",
            num_cpus=settings.video.num_cpus,  # a decoder uses one thread
        ).write_parquet(dataset.run(run_id, "cuts"), schema=CUT, **_written(dataset))


def caption_run(
    dataset: Dataset,
    run_id: str,
    settings: JobSettings,
    spec: FrameSpec,
    backend: Backend,
    schedule: Schedule,
    decode: Callable[..., Iterator[pa.Table]] = decode_table,
    flow: Flow | None = None,
) -> None:
    """Caption what the run's manifest lists and its checkpoint does not, into runs/<run_id>/rows,
    and keep `flow` up to date meanwhile.

    `decode` is what turns MANIFEST rows into DECODED ones, with the arguments of `decode_table`.
    Raises `StoppedError` with the reason.
    """
    with _checkpointed(dataset, run_id, CHECKPOINT, flow):
        _pipeline(dataset, run_id, settings, spec, backend, schedule, decode)


def _pipeline(
    dataset: Dataset,
    run_id: str,
    settings: JobSettings,
    spec: FrameSpec,
    backend: Backend,
    schedule: Schedule,
    decode: Callable[..., Iterator[pa.Table]],
) -> None:
    least, most = settings.caption.pool
    chosen = chosen_of(dataset, run_id, settings.run)
    (
        _read(dataset, run_id, "manifest", schedule.rows_per_block)
        .map_batches(
            partial(
                decode,
                run_id=run_id,
                spec=spec,
                video=settings.video,
                storage=settings.storage,
                queries=_queries(settings),
            ),
            batch_size=None,  # the whole block: one task decodes it, row by row
            batch_format="pyarrow",
            num_cpus=settings.video.num_cpus,  # a decoder uses one thread
        )
        .map_batches(
            Caption,
            fn_constructor_args=(backend, settings.models, settings.decoding, chosen),
            # The blocks that decoding made, one a call: where Ray cuts blocks it copies frames.
            batch_size=schedule.rows_per_block,
            batch_format="pyarrow",
            zero_copy_batch=True,  # frames stay where the decode task put them
            compute=ActorPoolStrategy(
                min_size=least,
                max_size=most,
                max_concurrent_calls_per_actor=schedule.calls_per_actor,
                # No block waits at a busy actor for a slot while another actor has one.
                max_tasks_in_flight_per_actor=schedule.calls_per_actor,
                enable_true_multi_threading=True,  # calls share the engine: see `SharedEngine`
            ),
            num_gpus=settings.caption.num_gpus,
            num_cpus=settings.caption.num_cpus,
        )
        # Without a schema an all-null column would be written as type `null`.
        .write_parquet(
            dataset.run(run_id, "rows"),
            schema=ROWS,
            min_rows_per_file=settings.run.rows_per_commit,  # one file, one commit
            **_written(dataset),
        )
    )


def _read(dataset: Dataset, run_id: str, folder: str, rows_per_block: int) -> ray.data.Dataset:
    """MANIFEST rows in blocks of at most so many."""
    rows = ray.data.read_parquet(
        dataset.run(run_id, folder),
        filesystem=dataset.fs,
        num_cpus=0.25,  # a few thousand short rows per file
    )
    # Small rows would be one block, committed at the very end.
    return rows.repartition(target_num_rows_per_block=rows_per_block)


def _queries(settings: JobSettings) -> dict[str, str]:
    """What signs the addresses of the source now, which no file of a run holds."""
    manifest = settings.source.manifest
    return {} if manifest is None else queries_of(manifest, settings.storage)


def _written(dataset: Dataset) -> dict[str, Any]:
    """How a commit is written: a file of a few kilobytes."""
    return {
        "filesystem": dataset.fs,
        "compression": COMPRESSION,
        "ray_remote_args": {"num_cpus": 0.25},
    }


@contextmanager
def _checkpointed(dataset: Dataset, run_id: str, folder: str, flow: Flow | None) -> Generator[None]:
    """Ray Data as a run needs it: with a checkpoint, without bars, and its errors in one line."""
    context = DataContext.get_current()
    before = context.checkpoint_config, context.enable_progress_bars
    callbacks = context.custom_execution_callback_classes
    context.checkpoint_config = _checkpoint(dataset.run(run_id, folder), dataset)
    context.enable_progress_bars = False  # the job has its own
    if flow is not None:
        context.custom_execution_callback_classes = [*callbacks, _noting(flow)]
    try:
        yield
    except RayError as error:
        raise StoppedError(_reason(error)) from error
    finally:
        context.checkpoint_config, context.enable_progress_bars = before
        context.custom_execution_callback_classes = callbacks


def _noting(flow: Flow) -> type[ExecutionCallback]:
    """What Ray Data calls many times a second, on the driver. It wants a class, which is not copied
    with the context it is in; workers get it pickled and never call it.
    """

    class Noting(ExecutionCallback):
        def on_execution_step(self, executor: Any) -> None:
            flow.steps = tuple(
                Step(
                    operator.metrics.rows_inputs_of_submitted_tasks,
                    operator.metrics.rows_task_outputs_generated,
                    operator.metrics.num_alive_actors,
                )
                for operator in executor._topology
                if "MapBatches(" in operator.name
            )

    return Noting


def _checkpoint(folder: str, dataset: Dataset) -> CheckpointConfig:
    config = CheckpointConfig(
        id_column="clip_id",
        checkpoint_path=folder,
        override_filesystem=dataset.fs,
        delete_checkpoint_on_success=False,  # else a rerun after success captions all again
    )
    # On a resume the filter is one more actor of one CPU; a pool that grows could hold every CPU of
    # a small machine while the tasks that feed it wait for one.
    config.checkpoint_actor_pool_max_size = 1
    return config


def _reason(error: RayError) -> str:
    """The exception at the root, in one line. Ray hands it over as text only: the tracebacks of
    every process it passed through, the root's first, each ended by its exception, and advice.
    """
    root = str(error).split("The above exception was the direct cause")[0]
    lines = root.strip().splitlines()
    indented = [number for number, line in enumerate(lines) if line.startswith("  ")]
    ends = lines[indented[-1] + 1 :] if indented else lines[-1:]
    return (ends or lines)[0].strip()
