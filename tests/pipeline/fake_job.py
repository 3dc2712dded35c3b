"""A process of its own that captions with the scripted captioner: what tests kill.

python tests/pipeline/fake_job.py --config <yaml> [--set key=value ...]
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.config import load_config
from pipeline.corpus import caption_corpus
from tests.pipeline.fakes import FAKE

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    summary = caption_corpus(load_config(options.config, options.set), backend=FAKE)
    print(json.dumps(summary.to_json()))
