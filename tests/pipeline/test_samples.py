"""Which clips are audited and shown, what an audit says, and strips of frames."""

import io
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.audit import agreement, lost_words
from pipeline.config import RunSettings
from pipeline.samples import Chosen, choose
from pipeline.strips import HEIGHT, strip_jpeg

IDS = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(i))) for i in range(1000)]


@pytest.mark.parametrize(
    ("clips", "share", "samples", "audited", "shown"),
    [
        (1000, 0.01, 200, 10, 200),
        (3, 0.01, 200, 3, 3),
        (50, 0.01, 10, 4, 10),
        (1000, 0.0, 0, 0, 0),
        (10, 1.0, 2, 10, 2),
    ],
)
def test_as_many_as_asked_whatever_the_order(
    clips: int, share: float, samples: int, audited: int, shown: int
) -> None:
    settings = RunSettings(audit_share=share, samples=samples)
    chosen = choose(pa.array(IDS[:clips]), settings)
    assert choose(pa.array(IDS[:clips][::-1]), settings) == chosen
    assert sum(clip <= chosen.audited for clip in IDS[:clips]) == audited
    assert sum(clip <= chosen.shown for clip in IDS[:clips]) == shown


def test_no_clips_choose_nothing() -> None:
    assert choose(pa.array([], pa.string()), RunSettings()) == Chosen()


@given(st.text(), st.text())
def test_agreement_is_a_share_and_a_text_agrees_with_itself(plain: str, caption: str) -> None:
    assert 0 <= agreement(plain, caption) <= 1
    assert agreement(plain, plain) == 1
    assert lost_words(plain, plain) == []


def test_order_counts_for_agreement_and_not_for_lost_words() -> None:
    assert agreement("red ball, blue cube", "blue cube, red ball") == 0.5
    assert lost_words("red ball, blue cube", "blue cube, red ball") == []
    assert lost_words("Ein roter Ball", "Ein Ball") == ["roter"]


@pytest.mark.parametrize(("frames", "shown"), [(1, 1), (8, 8), (64, 8)])
def test_a_strip_is_small_and_shows_first_to_last(frames: int, shown: int) -> None:
    clip = np.zeros((frames, 112, 224, 3), np.uint8)
    clip[-1] = 255
    data = strip_jpeg(clip)
    picture = Image.open(io.BytesIO(data))
    assert picture.size == (144 * shown, HEIGHT)
    assert np.asarray(picture)[:, -100:].min() > 240
    assert len(data) < 20_000
