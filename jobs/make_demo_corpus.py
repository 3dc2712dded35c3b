"""Write a small corpus of demo scenes as real video files: `python jobs/make_demo_corpus.py`.

Most are scenes the embedded pair was never trained on; two files are broken on purpose, so that the
demo also shows what a failed clip looks like. Files that are there already stay as they are, so
running it again leaves the corpus unchanged.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lvspec import demo
from lvspec.demo import video

SUFFIXES = (".mp4", ".mp4", ".mkv", ".webm")  # dealt in turn
SEED = 7


def make_corpus(folder: Path, clips: int, seed: int = SEED) -> int:
    """Write what is missing of `clips` scenes and the two broken files; returns how many were
    written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for index, scene in enumerate(islice(demo.heldout(seed), clips)):
        path = folder / f"scene_{index:03d}{SUFFIXES[index % len(SUFFIXES)]}"
        if not path.exists():
            half_written = folder.parent / f"part_{path.name}"  # never seen by a running job
            video.write(scene, half_written)
            half_written.rename(path)
            written += 1
    broken = {
        "broken_truncated.mp4": (folder / "scene_000.mp4").read_bytes()[:600],
        "broken_empty.mp4": b"",
    }
    for name, content in broken.items():
        if not (folder / name).exists():
            (folder / name).write_bytes(content)
            written += 1
    return written


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    about = "Write a small corpus of demo videos."
    parser = argparse.ArgumentParser(prog=prog, description=about)
    parser.add_argument("--output", type=Path, default=Path("demo_corpus"), help="folder to write")
    parser.add_argument("--clips", type=int, default=24, help="scenes to write (default 24)")
    parser.add_argument("--seed", type=int, default=SEED, help="which scenes")
    return parser


def main(arguments: list[str] | None = None, *, prog: str | None = None) -> int:
    """Write the corpus; returns the exit code."""
    options = command_line(prog).parse_args(arguments)
    written = make_corpus(options.output, options.clips, options.seed)
    print(f"{options.output}: {options.clips} scenes and 2 broken files, {written} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
