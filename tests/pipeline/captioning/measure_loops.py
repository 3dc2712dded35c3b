"""False alarms of `is_degenerate` on the embedded pair's captions of 256 held-out scenes.

python tests/pipeline/captioning/measure_loops.py
"""

import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

import lvspec
from lvspec.demo import drawing, heldout
from lvspec.types import Generation
from pipeline.captioning.loops import is_degenerate, share_of_new_ngrams

if __name__ == "__main__":
    times_s = (np.arange(8) + 0.5) * (3.0 / 8)
    scenes = list(islice(heldout(1), 256))
    for settings in (
        lvspec.DecodeSettings(slots=8),
        lvspec.DecodeSettings(slots=8, drafter="none"),
    ):
        engine = lvspec.Engine(lvspec.load(), settings)
        requests = (
            lvspec.Request(str(n), drawing.render(scene), times_s) for n, scene in enumerate(scenes)
        )
        ids = [r.token_ids[:-1] for r in engine.run(requests) if isinstance(r, Generation)]
        flagged = sum(map(is_degenerate, ids))
        shares = [share_of_new_ngrams(np.array(tokens)) for tokens in ids]
        print(
            f"{settings.drafter}: {flagged} of {len(ids)} flagged, share of different 4-grams "
            f"{min(shares):.3f} to {max(shares):.3f}"
        )
