"""`caption` and `generate` with the embedded pair: files, arrays, tensors, one or many."""

import itertools

import numpy as np
import pytest
import torch

import lvspec
from lvspec import demo
from lvspec.demo import drawing, video


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return lvspec.load()


@pytest.fixture(scope="module")
def frames():
    scene = next(demo.heldout(0))
    return drawing.render(scene)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    video.write(next(demo.heldout(0)), path)
    return path


def test_arrays_and_tensors_of_either_layout_say_the_same(pair, frames):
    tensor = torch.from_numpy(frames)
    sources = [frames, tensor, tensor.movedim(-1, 1), frames[:, :, ::-1][:, :, ::-1]]
    frames.flags.writeable = False
    results = list(lvspec.generate(pair, [*sources, frames]))
    assert len({r.token_ids for r in results}) == 1
    assert results[0].token_ids == lvspec.caption(pair, frames).token_ids
    assert sorted(r.request_id for r in results) == ["0", "1", "2", "3", "4"]


def test_a_file_and_its_path_say_the_same(pair, file):
    by_path = lvspec.caption(pair, file)
    with file.open("rb") as opened:
        assert lvspec.caption(pair, opened).token_ids == by_path.token_ids
    (streamed,) = lvspec.generate(pair, [str(file)], reasons=True)
    assert streamed.token_ids == by_path.token_ids
    assert streamed.reasons == by_path.reasons
    assert len(streamed.text.split()) > 20


def test_a_bad_file_is_a_refusal_among_captions(pair, file, tmp_path):
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"not a video")
    results = {r.request_id: r for r in lvspec.generate(pair, [file, bad, file, bad])}
    assert [type(results[k]).__name__ for k in "0123"] == ["Generation", "Refusal"] * 2
    assert results["1"].code and "bad.mp4" in results["1"].message
    with pytest.raises(lvspec.VideoError):
        lvspec.caption(pair, bad)


def test_only_bad_files(pair, tmp_path):
    (result,) = lvspec.generate(pair, [tmp_path / "missing.mp4"])
    assert isinstance(result, lvspec.Refusal)


def test_sources_may_be_endless(pair, frames):
    results = lvspec.generate(pair, itertools.repeat(frames))
    assert len(list(itertools.islice(results, 5))) == 5


def test_prompts_times_and_requests(pair, frames):
    times = np.arange(8) * 0.5
    asked = lvspec.caption(pair, frames, times_s=times)
    request = lvspec.Request("mine", frames, times)
    (result,) = lvspec.generate(pair, [request])
    assert (result.request_id, result.token_ids) == ("mine", asked.token_ids)
    with pytest.raises(ValueError, match="bad_request"):
        lvspec.caption(pair, frames[:, :50])
