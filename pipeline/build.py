"""The Ray Data plan of a run, read top to bottom. The only file with `map_batches`, `num_gpus`,
`concurrency`.

One row per clip from read to write: Ray's checkpointing filters ids right after the read and
commits them with each written file, so a fan-out or a filter in between would lose or redo clips.
"""

from functools import partial

import ray.data
from ray.data import ActorPoolStrategy, DataContext
from ray.data.checkpoint import CheckpointConfig
from ray.exceptions import RayError

from lvspec.video import FrameSpec
from pipeline.backend import Backend
from pipeline.config import JobSettings
from pipeline.dataset import COMPRESSION, Dataset
from pipeline.errors import StoppedError
from pipeline.schema import ROWS
from pipeline.stages.caption import Caption
from pipeline.stages.decode import decode_table


def caption_run(
    dataset: Dataset, run_id: str, settings: JobSettings, spec: FrameSpec, backend: Backend
) -> None:
    """Caption what the run's manifest lists and its checkpoint does not, into runs/<run_id>/rows.

    Raises `StoppedError` with the reason.
    """
    context = DataContext.get_current()
    before = context.checkpoint_config, context.enable_progress_bars
    context.checkpoint_config = _checkpoint(dataset, run_id)
    context.enable_progress_bars = False  # the job counts committed rows instead
    try:
        _pipeline(dataset, run_id, settings, spec, backend)
    except RayError as error:
        raise StoppedError(_reason(error)) from error
    finally:
        context.checkpoint_config, context.enable_progress_bars = before


def _pipeline(
    dataset: Dataset, run_id: str, settings: JobSettings, spec: FrameSpec, backend: Backend
) -> None:
    rows_per_commit = settings.run.rows_per_commit
    least, most = settings.caption.pool
    (
        ray.data.read_parquet(
            dataset.run(run_id, "manifest"),
            filesystem=dataset.fs,
            num_cpus=0.25,  # a few thousand short rows per file
        )
        # A manifest of small rows would be one block, committed at the very end.
        .repartition(target_num_rows_per_block=rows_per_commit)
        .map_batches(
            partial(
                decode_table,
                run_id=run_id,
                spec=spec,
                video=settings.video,
                storage=settings.storage,
            ),
            batch_size=None,  # the whole block: one task decodes one commit, row by row
            batch_format="pyarrow",
            num_cpus=settings.video.num_cpus,  # a decoder uses one thread
        )
        .map_batches(
            Caption,
            fn_constructor_args=(backend, settings.models, settings.decoding),
            # Joins what decoding had to split at Ray's block size: one call, one staged file, one
            # commit.
            batch_size=rows_per_commit,
            batch_format="pyarrow",
            zero_copy_batch=True,  # frames stay where the decode task put them
            compute=ActorPoolStrategy(min_size=least, max_size=most),
            num_gpus=settings.caption.num_gpus,
            num_cpus=settings.caption.num_cpus,
        )
        .write_parquet(
            dataset.run(run_id, "rows"),
            filesystem=dataset.fs,
            schema=ROWS,  # an all-null column would otherwise be written as type `null`
            compression=COMPRESSION,
            ray_remote_args={"num_cpus": 0.25},  # writes a file of a few kilobytes
        )
    )


def _checkpoint(dataset: Dataset, run_id: str) -> CheckpointConfig:
    folder = dataset.run(run_id, "checkpoint")
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
    every process it passed through, the root's first and each ended by its exception.
    """
    root = str(error).split("The above exception was the direct cause")[0]
    return root.strip().splitlines()[-1].strip()
