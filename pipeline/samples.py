"""Which clips of a run are looked at more closely: the lowest ids, which are uniform hashes.

So the choice is the same whenever a run is resumed, and needs no state.
"""

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from pipeline.config import RunSettings
from pipeline.dataset import Dataset
from pipeline.schema import MANIFEST

ID = "clip_id"
LEAST_AUDITED = 4  # of a small run: the first may be files that cannot be read
pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none


@dataclass(frozen=True)
class Chosen:
    """Ids up to `audited` are decoded plainly too, those up to `shown` keep a strip of frames and
    their tokens. Empty texts choose none.
    """

    audited: str = ""
    shown: str = ""

    @property
    def any(self) -> bool:
        return bool(self.audited or self.shown)


def choose(ids: pa.Array, run: RunSettings) -> Chosen:
    """The audit_share lowest ids are audited, and LEAST_AUDITED where that is fewer; the `samples`
    lowest are shown.
    """
    audited = max(LEAST_AUDITED, math.ceil(run.audit_share * len(ids))) if run.audit_share else 0
    return Chosen(audited=_kth(ids, audited), shown=_kth(ids, run.samples))


def chosen_of(dataset: Dataset, run_id: str, run: RunSettings) -> Chosen:
    """The same for a run's manifest."""
    if not run.audit_share and not run.samples:
        return Chosen()
    files = dataset.parquet_files(dataset.run(run_id, "manifest"))
    column = dataset.scan(files, MANIFEST).to_table(columns=[ID])[ID]
    return choose(column.combine_chunks() if column.num_chunks else pa.array([], pa.string()), run)


def _kth(ids: pa.Array, count: int) -> str:
    count = min(count, len(ids))
    if not count:
        return ""
    places = pc.select_k_unstable(ids, k=count, sort_keys=[("", "ascending")])
    return ids[places[count - 1].as_py()].as_py()
