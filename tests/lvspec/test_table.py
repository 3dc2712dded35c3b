"""The host's bookkeeping: cutting at end tokens and limits, and counting what was emitted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lvspec.table import Table, emit
from lvspec.types import REASONS, STOPS

EOS = np.array([7, 8])
EXACT, LOOSE, SHIFT, TARGET = range(4)
WHOLE, MISMATCH, END = (STOPS.index(name) for name in ("whole", "mismatch", "end"))


def emitted(drafted, following, accepted, room=100, stop=MISMATCH):
    return emit(
        np.array([drafted]),
        np.array([following]),
        np.array([accepted]),
        np.array([[EXACT] * len(drafted)]),
        np.array([stop]),
        EOS,
        np.array([room]),
    )


def row(drafted, following, accepted, room=100):
    block = emitted(drafted, following, accepted, room)
    count = int(block.counts[0])
    tokens = block.tokens[0, :count].tolist()
    return tokens, block.reasons[0, :count].tolist(), int(block.accepted[0]), bool(block.ended[0])


def test_prefix_then_the_targets_token():
    assert REASONS[TARGET] == "target"
    assert row([1, 2, 3], 9, 2) == ([1, 2, 9], [EXACT, EXACT, TARGET], 2, False)
    assert row([1, 2, 3], 9, 0) == ([9], [TARGET], 0, False)


def test_an_end_token_cuts_the_block_and_is_counted():
    assert row([1, 7, 3], 9, 3) == ([1, 7], [EXACT, EXACT], 2, True)
    assert row([1, 2, 3], 8, 3) == ([1, 2, 3, 8], [EXACT, EXACT, EXACT, TARGET], 3, True)


def test_an_end_token_beyond_the_prefix_does_not_end():
    assert row([1, 7, 3], 9, 1) == ([1, 9], [EXACT, TARGET], 1, False)


def test_the_limit_cuts_before_an_end_token_behind_it():
    assert row([1, 2, 7], 9, 3, room=2) == ([1, 2], [EXACT, EXACT], 2, False)
    assert row([1, 7, 3], 9, 3, room=2) == ([1, 7], [EXACT, EXACT], 2, True)


def test_plain_decoding_emits_the_targets_token():
    assert row([], 5, 0) == ([5], [TARGET], 0, False)


def test_a_caption_that_ends_inside_the_block_stopped_it():
    def stop(*args, **kwargs):
        return emitted(*args, **kwargs).stops.tolist()

    assert stop([1, 2, 3], 9, 2) == [MISMATCH]
    assert stop([1, 2, 3], 8, 2) == [MISMATCH], "the target's own end token, after the stop"
    assert stop([1, 7, 3], 9, 3, stop=WHOLE) == [END]
    assert stop([1, 2, 7], 9, 3, stop=WHOLE) == [END], "no room was left for the bonus token"
    assert stop([1, 2, 3], 9, 2, room=2) == [END]
    assert stop([1, 2, 3], 9, 2, room=3) == [MISMATCH]


@given(st.data())
def test_table_holds_the_concatenation_of_all_blocks(data):
    slots, length = 3, 4
    table = Table(slots)
    limit = data.draw(st.integers(1, 200))
    for slot in range(slots):
        table.admit(slot, 50 + slot, 60 + slot, limit, 0.0, ended=False)
    said = [[60 + slot] for slot in range(slots)]
    drafted_ids = st.lists(st.integers(0, 6), min_size=length, max_size=length)
    for _ in range(data.draw(st.integers(1, 8))):
        room = limit - table.generated
        if (room < 1).any():
            break
        drafted = np.array([data.draw(drafted_ids) for _ in range(slots)])
        accepted = np.array([data.draw(st.integers(0, length)) for _ in range(slots)])
        reasons = np.full((slots, length), LOOSE)
        stops = np.where(accepted < length, MISMATCH, WHOLE)
        block = emit(drafted, np.full(slots, 6), accepted, reasons, stops, EOS, room)
        table.commit(block, length, 0.5)
        for slot in range(slots):
            whole = [*drafted[slot, : accepted[slot]].tolist(), 6]
            said[slot] += whole[: room[slot]]
            assert table.finished[slot] == (len(said[slot]) >= limit)
    for slot in range(slots):
        assert table.said(slot).tolist() == said[slot]
        two = ([50 + slot, *said[slot]])[-2:]
        assert table.tail(slots)[slot].tolist() == two
        assert table.loose[slot] == table.accepted[slot]
        assert table.emitted_at[slot].sum() == len(said[slot]) - 1
        assert table.stops[slot].sum() == table.rounds[slot]
    table.move(2, 0)
    assert table.said(0).tolist() == said[2]
    table.admit(2, 1, 2, limit=5, began=0.0, ended=False)
    assert not table.finished[2]
    table.admit(1, 1, 7, limit=5, began=0.0, ended=True)
    assert table.finished[1]
    assert table.said(0).tolist() == said[2]
    assert table.rounds[2] == 0 and table.decode_s[2] == 0
