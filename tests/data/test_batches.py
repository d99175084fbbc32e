"""Batches: every pair once, within the budget, the same from any starting point."""

import itertools
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.data import batches
from mt.data.batches import SOURCE_BUDGET_RATIO, BatchLoader, collate, padding_waste, plan_epoch
from mt.data.store import TokenStore
from mt.data.tokenizer import BOS, EOS, PAD
from mt.errors import DataError

torch.set_num_threads(1)


def lengths_like_captions(pairs, seed=0):
    random = np.random.default_rng(seed)
    target = random.poisson(14, pairs) + 1
    source = np.maximum(1, (target * random.normal(1.12, 0.15, pairs)).astype(int))
    return source, target


def store_of(source_lengths, target_lengths):
    def side(lengths, first):
        return [[first + (i + k) % 90 for k in range(n)] for i, n in enumerate(lengths)]

    return TokenStore.of(side(source_lengths, 4), side(target_lengths, 100))


@settings(max_examples=100, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60),
    batch_tokens=st.integers(1, 200),
    world_size=st.integers(1, 4),
    epoch=st.integers(0, 3),
)
def test_each_pair_once_within_the_budget_equally_shared(pairs, batch_tokens, world_size, epoch):
    source = np.array([s for s, _ in pairs], dtype=np.int32)
    target = np.array([t for _, t in pairs], dtype=np.int32)
    try:
        plans = [
            plan_epoch(
                source,
                target,
                batch_tokens=batch_tokens,
                seed=7,
                epoch=epoch,
                rank=rank,
                world_size=world_size,
            )
            for rank in range(world_size)
        ]
    except DataError:
        assert world_size > 1 and len(pairs) % world_size  # only when single pairs cannot be shared equally
        return
    assert len({len(plan) for plan in plans}) == 1
    every = [batch for plan in plans for batch in plan]
    assert sorted(int(i) for batch in every for i in batch) == list(range(len(pairs)))
    for batch in every:
        assert len(batch)
        if len(batch) > 1:
            assert len(batch) * (target[batch].max() + 1) <= batch_tokens
            assert len(batch) * (source[batch].max() + 1) <= batch_tokens * SOURCE_BUDGET_RATIO


def test_pure_and_different_from_epoch_to_epoch():
    source, target = lengths_like_captions(3000)
    plan = {
        (seed, epoch): plan_epoch(source, target, batch_tokens=1024, seed=seed, epoch=epoch)
        for seed in (1, 2)
        for epoch in range(4)
    }
    again = plan_epoch(source, target, batch_tokens=1024, seed=2, epoch=3)
    assert all(np.array_equal(a, b) for a, b in zip(again, plan[2, 3], strict=True))
    compositions = {key: {frozenset(batch.tolist()) for batch in value} for key, value in plan.items()}
    for first, second in itertools.combinations(compositions.values(), 2):
        assert len(first & second) < 0.1 * len(first)  # the batches differ, not only their order


def test_little_padding_on_both_sides():
    source, target = lengths_like_captions(29_000)
    for batch_tokens, floor in ((1024, 0.93), (4096, 0.88)):
        for epoch in range(4):
            plan = plan_epoch(source, target, batch_tokens=batch_tokens, seed=1, epoch=epoch)
            assert 1 - padding_waste(plan, target) >= floor
            assert 1 - padding_waste(plan, source) >= 0.85


def test_padding_waste_counts_positions():
    plan = [np.array([0, 1]), np.array([2])]
    assert padding_waste(plan, np.array([1, 4, 9])) == pytest.approx(3 / 20)  # 2+5+10 of 5+5+10 are real
    assert padding_waste([], np.array([])) == 0.0


def test_planning_is_fast():
    source, target = lengths_like_captions(29_000)
    seconds = []
    for epoch in range(3):
        started = time.process_time()
        plan_epoch(source, target, batch_tokens=4096, seed=1, epoch=epoch)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.1


def test_order_within_the_epoch_is_not_by_length():
    source, target = lengths_like_captions(5000)
    plan = plan_epoch(source, target, batch_tokens=1024, seed=1, epoch=0)
    longest = [int(target[batch].max()) for batch in plan]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.5


def test_ranks_work_on_batches_of_like_size():
    source, target = lengths_like_captions(5000)
    plans = [
        plan_epoch(source, target, batch_tokens=1024, seed=1, epoch=0, rank=rank, world_size=4)
        for rank in range(4)
    ]
    positions = [[len(plan[k]) * (target[plan[k]].max() + 1) for plan in plans] for k in range(len(plans[0]))]
    uneven = [max(step) / min(step) for step in positions]
    assert np.median(uneven) < 1.1


def test_a_pair_beyond_the_budget_has_a_batch_of_its_own():
    source, target = np.array([3, 500, 3, 3]), np.array([3, 3, 400, 3])
    plan = plan_epoch(source, target, batch_tokens=100, seed=1, epoch=0)
    assert [1] in [batch.tolist() for batch in plan] and [2] in [batch.tolist() for batch in plan]


def test_collate_writes_what_the_store_holds():
    store = TokenStore.of([[5, 6, 7], [8], []], [[9], [10, 11, 12], [13]])
    batch = collate(store, [1, 0, 2])
    assert batch.source.tolist() == [[8, EOS, PAD, PAD], [5, 6, 7, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.target_input.tolist() == [[BOS, 10, 11, 12], [BOS, 9, PAD, PAD], [BOS, 13, PAD, PAD]]
    assert batch.target_output.tolist() == [[10, 11, 12, EOS], [9, EOS, PAD, PAD], [13, EOS, PAD, PAD]]
    assert batch.indices.tolist() == [1, 0, 2]
    assert batch.source_mask.sum(dim=1).tolist() == [2, 4, 1]
    assert batch.target_mask.sum(dim=1).tolist() == [4, 2, 2]
    assert batch.tokens == int(batch.target_mask.sum()) == 8
    assert batch.source.dtype == batch.target_input.dtype == batch.target_output.dtype == torch.int64
    assert torch.equal(batch.target_mask, batch.target_input != PAD)


def test_collate_equals_pair_by_pair():
    store = store_of(*lengths_like_captions(200))
    for indices in plan_epoch(store.source_lengths, store.target_lengths, batch_tokens=300, seed=1, epoch=0):
        batch = collate(store, indices)
        for row, index in enumerate(indices):
            source, target = store.source(index).tolist(), store.target(index).tolist()
            assert batch.source[row][batch.source_mask[row]].tolist() == [*source, EOS]
            assert batch.target_output[row][batch.target_mask[row]].tolist() == [*target, EOS]
            assert batch.target_input[row][batch.target_mask[row]].tolist() == [BOS, *target]


@pytest.mark.parametrize("pairs", [2, 3, 7])
def test_split_halves_are_the_batches_of_their_pairs(pairs):
    store = store_of(*lengths_like_captions(pairs))
    halves = collate(store, range(pairs)).split()
    for half, indices in zip(halves, (range((pairs + 1) // 2), range((pairs + 1) // 2, pairs)), strict=True):
        expected = collate(store, indices)
        assert half.tokens == expected.tokens
        for name in ("source", "target_input", "target_output", "indices"):
            assert torch.equal(getattr(half, name), getattr(expected, name))


def test_one_pair_cannot_be_split():
    with pytest.raises(ValueError, match="one pair"):
        collate(store_of([3], [3]), [0]).split()


def test_to_moves_everything():
    moved = collate(store_of([3, 2], [3, 1]), [0, 1]).to("meta")
    assert moved.source.device.type == moved.target_output.device.type == moved.indices.device.type == "meta"
    assert moved.tokens == 6


# --- loader

STORE = store_of(*lengths_like_captions(120))


def take(count, **options):
    with BatchLoader(STORE, batch_tokens=200, seed=5, **options) as loader:
        return [
            (epoch, position, batch.indices.tolist(), batch.source.tolist())
            for epoch, position, batch in itertools.islice(loader, count)
        ]


def test_the_sequence_does_not_depend_on_prefetching():
    expected = take(40, prefetch_batches=0)
    for prefetch in (1, 3, 64):
        assert take(40, prefetch_batches=prefetch) == expected
    assert expected[0][:2] == (0, 0)
    assert {epoch for epoch, *_ in expected} >= {0, 1}


def test_it_starts_anywhere():
    everything = take(40, prefetch_batches=0)
    length = max(position for epoch, position, *_ in everything if epoch == 0) + 1
    for start, (epoch, position, *_) in enumerate(everything):
        assert take(3, epoch=epoch, position=position, prefetch_batches=2)[0] == everything[start]
    assert take(3, epoch=0, position=length) == everything[length : length + 3]
    with pytest.raises(ValueError, match="beyond"):
        take(1, epoch=0, position=length + 1)


def test_epochs_agree_with_the_plan():
    with BatchLoader(STORE, batch_tokens=200, seed=5, prefetch_batches=0) as loader:
        for epoch in range(2):
            for position, indices in enumerate(loader.plan(epoch)):
                found = next(loader)
                assert found[:2] == (epoch, position)
                assert found[2].indices.tolist() == indices.tolist()


@pytest.mark.parametrize("prefetch", [0, 4])
def test_errors_in_the_thread_reach_the_consumer(monkeypatch, prefetch):
    made = itertools.count()

    def failing(store, indices, *_):
        if next(made) == 3:
            raise OSError("the disk is gone")
        return collate(store, indices)

    monkeypatch.setattr(batches, "collate", failing)
    with BatchLoader(STORE, batch_tokens=200, seed=5, prefetch_batches=prefetch) as loader:
        assert len([next(loader) for _ in range(3)]) == 3
        with pytest.raises(OSError, match="the disk is gone"):
            next(loader)
        with pytest.raises(StopIteration):
            next(loader)


def test_close_ends_the_thread_at_once():
    before = threading.active_count()
    loader = BatchLoader(STORE, batch_tokens=200, seed=5, prefetch_batches=2)
    next(loader)
    started = time.monotonic()
    loader.close()
    loader.close()
    assert time.monotonic() - started < 2
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(loader)


def test_waiting_is_measured(monkeypatch):
    def slow(store, indices, *_):
        time.sleep(0.02)
        return collate(store, indices)

    monkeypatch.setattr(batches, "collate", slow)
    with BatchLoader(STORE, batch_tokens=200, seed=5, prefetch_batches=1) as loader:
        for _ in range(5):
            next(loader)
        assert 0.05 < loader.wait_seconds < 2


def test_an_empty_store_is_an_error():
    with pytest.raises(DataError, match="no training pairs"):
        BatchLoader(TokenStore.of([], []), batch_tokens=10, seed=1)


def test_no_batch_has_more_pairs_than_allowed():
    source, target = lengths_like_captions(500)
    arguments = {"batch_tokens": 4096, "seed": 3, "epoch": 0}
    plan = plan_epoch(source, target, batch_sentences=32, **arguments)
    assert max(len(batch) for batch in plan) == 32
    assert sorted(np.concatenate(plan)) == list(range(500))
    # Where the tokens run out first they still decide.
    small = plan_epoch(source, target, batch_sentences=32, **{**arguments, "batch_tokens": 100})
    assert [b.tolist() for b in small] == [
        b.tolist() for b in plan_epoch(source, target, **{**arguments, "batch_tokens": 100})
    ]
    loader = BatchLoader(
        store_of(source, target), batch_sentences=32, prefetch_batches=0, batch_tokens=4096, seed=3
    )
    assert len(loader.plan(0)) == len(plan)
