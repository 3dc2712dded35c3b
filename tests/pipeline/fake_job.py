"""A process of its own that captions with the scripted captioner: what tests kill.

python tests/pipeline/fake_job.py --config <yaml> [--set key=value ...]

It is the job script itself, and ends with its exit codes; the last line of stdout is the summary.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from jobs.caption_corpus import main
from tests.pipeline.fakes import FAKE

if __name__ == "__main__":
    sys.exit(main([*sys.argv[1:], "--json"], FAKE))
