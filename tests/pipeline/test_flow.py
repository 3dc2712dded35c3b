"""What progress makes of the counts of Ray Data and of what is committed."""

from pipeline.flow import CaptionLook, CutLook, Flow, Step


def test_the_rate_of_captions_is_that_since_the_models_were_loaded() -> None:
    now, flow = [0.0], Flow()
    look = CaptionLook(lambda: 0, 100, flow, lambda: now[0])
    now[0] = 45.0
    flow.steps = (Step(taken=16), Step())
    assert [shown.rate for shown in look()] == [None, None]
    now[0] = 50.0
    flow.steps = (Step(taken=16, made=10), Step())
    decode, caption = look()
    assert str(decode) == "decode: 10/100 clips  2.0 clips/s  45 s left"
    assert "loading models" in str(caption)
    assert caption.note == "10 decoded and waiting"
    now[0] = 60.0
    flow.steps = (Step(taken=32, made=30), Step(taken=20, made=0, actors=1))
    assert "working until the first rows" in str(look()[1])
    now[0] = 64.0
    flow.steps = (Step(taken=32, made=30), Step(taken=20, made=8, actors=1))
    caption = look()[1]
    assert (caption.done, caption.rate) == (8, 2.0)
    assert caption.note == "10 decoded and waiting, 12 in hand, 0 committed"


def test_a_run_that_ends_before_the_first_look_has_no_fabulous_rate() -> None:
    now, flow = [0.0], Flow()
    look = CaptionLook(lambda: 14, 14, flow, lambda: now[0])
    look._at_start = 0
    now[0] = 28.0
    flow.steps = (Step(14, 14), Step(14, 14, 1))
    assert [shown.rate for shown in look()] == [0.5, 0.5]


def test_a_resumed_run_counts_from_what_is_committed() -> None:
    committed, flow = [40], Flow()
    look = CaptionLook(lambda: committed[0], 100, flow)
    flow.steps = (Step(60, 20), Step(20, 10, 1))
    decode, caption = look()
    assert (decode.done, caption.done, caption.fresh) == (60, 50, 10)
    flow.steps, committed[0] = (Step(80, 80), Step(80, 80, 1)), 100  # a task was tried again
    decode, caption = look()
    assert (decode.done, caption.done, caption.note) == (100, 100, "")


def test_without_counts_of_ray_data_the_committed_ones_are_shown() -> None:
    committed = [0]
    look = CaptionLook(lambda: committed[0], 8, Flow())
    committed[0] = 4
    assert [shown.done for shown in look()] == [4, 4]


def test_the_last_count_stands_while_storage_does_not_answer() -> None:
    answers = iter([2, 3])

    def count() -> int:
        try:
            return next(answers)
        except StopIteration:
            raise OSError("storage is away") from None

    look = CutLook(count, 9, Flow())
    assert [look()[0].done for _ in range(3)] == [3, 3, 3]


def test_videos_that_are_being_cut_are_in_hand() -> None:
    flow = Flow()
    look = CutLook(lambda: 4, 9, flow)
    flow.steps = (Step(taken=3, made=1),)
    assert look()[0].note == "3 in hand"
