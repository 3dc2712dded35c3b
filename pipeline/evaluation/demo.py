"""A small offline benchmark from demo scenes, in the very fields of the real ones: captions with
references, and multiple choice.
"""

import json
from itertools import islice
from pathlib import Path

import numpy as np

from lvspec import demo
from lvspec.demo import captions, video
from lvspec.demo.questions import ask

SEED = 11


def write(folder: Path, scenes: int, seed: int = SEED) -> None:
    """Writes videos/, captions.jsonl and choices.jsonl below `folder`; what is there stays."""
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    described: list[dict[str, object]] = []
    asked: list[dict[str, object]] = []
    for number, scene in enumerate(islice(demo.heldout(seed), scenes)):
        name = f"scene_{number:03d}"
        path = folder / "videos" / f"{name}.mp4"
        if not path.exists():
            half_written = folder / f"part_{name}.mp4"
            video.write(scene, half_written)
            half_written.rename(path)
        rng = np.random.default_rng([seed, number])
        described.append(
            {
                "video_name": name,
                "question": captions.PROMPT,
                "answer": captions.caption(rng, scene),
            }
        )
        question = ask(rng, scene)[0]
        asked.append(
            {
                "videoID": name,
                "question_id": f"{name}-{question.fact}",
                "duration": "short",
                "domain": "Toy scenes",
                "task_type": question.fact,
                "question": question.text,
                "options": list(question.lines()),
                "answer": question.answer,
            }
        )
    for name, lines in (("captions", described), ("choices", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
