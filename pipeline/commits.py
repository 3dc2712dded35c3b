"""What of a run is committed: Ray Data's checkpoint folder, read from outside.

Ray writes `<task>.pending.parquet` (ids), then the rows, then renames the ids to `<task>.parquet`;
on a resume it deletes the rows of ids that are still pending.
"""

import pyarrow.parquet as pq

from pipeline.dataset import Dataset

PENDING = ".pending.parquet"
FINAL = ".parquet"
CHECKPOINT, CUT_CHECKPOINT = "checkpoint", "cut_checkpoint"  # of captions, and of cut videos


class Commits:
    """Counts committed rows of one run; looks into each file once, so it can be asked often."""

    def __init__(self, dataset: Dataset, run_id: str, checkpoint: str = CHECKPOINT) -> None:
        self._dataset = dataset
        self._folder = dataset.run(run_id, checkpoint)
        self._rows: dict[str, int] = {}

    def count(self) -> int:
        """Rows committed so far."""
        for path in self._dataset.parquet_files(self._folder):
            if not path.endswith(PENDING) and path not in self._rows:
                metadata = pq.read_metadata(path, filesystem=self._dataset.fs)
                self._rows[path] = metadata.num_rows
        return sum(self._rows.values())


def settle(dataset: Dataset, run_id: str, checkpoint: str = CHECKPOINT) -> None:
    """Finish renames that a kill cut in two; call it before a resume, while nothing writes.

    On object storage a rename is a copy and a delete. Killed in between, the ids are both final and
    pending, and Ray would delete the rows and yet believe them done: those clips would be lost.
    """
    files = set(dataset.parquet_files(dataset.run(run_id, checkpoint)))
    for path in files:
        if path.endswith(PENDING) and path.removesuffix(PENDING) + FINAL in files:
            dataset.fs.delete_file(path)
