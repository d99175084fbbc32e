"""Batches by token budget: which pairs go together, in which order, from any point on.

Idea: the composition of every batch is a pure function of (seed, epoch, rank, world size), so a
position in the training is just (epoch, number of the batch), and resuming costs nothing. Pairs of
like source *and* target length share a batch: the pairs are laid out along a snake (length of one
side rising; for each such length the other side's rising and falling in turn) and cut where the
budget is full. Which side leads, where the first cut lies and the order of equal lengths change from
epoch to epoch, so that batches do.

Measured on Multi30k fr-en (29,000 pairs, 8,000 pieces, mean of 10 epochs): share of target | source
positions that are not padding, at a budget of 1,024: 99 % | 98 %, at 1,536: 99 % | 97 %, at 4,096:
97 % | 93 %. Plain sorting by (source, target) gives 89 % | 99 % at 4,096 and more batches. Planning
takes 10 to 20 ms.

Contract: each pair exactly once per epoch over all ranks; every rank the same number of batches.
Not in here: what a step does with a batch.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mt.data.store import Ids, TokenStore
from mt.data.subwords import SubwordDropout
from mt.data.tokenizer import BOS, EOS, PAD
from mt.errors import DataError

Indices = npt.NDArray[np.int64]

# A batch's source side may be this much larger than its budget of target positions. The encoder is
# cheaper than the decoder, so sources somewhat longer than targets need not shrink the batch.
SOURCE_BUDGET_RATIO = 1.5


@dataclass(frozen=True)
class Batch:
    """B pairs as padded id tensors.

    Attributes:
        source: (B, S) int64, each row ends with EOS, then PAD.
        target_input: (B, T) int64, each row begins with BOS; what the decoder reads.
        target_output: (B, T) int64, each row ends with EOS; what the decoder has to say.
        indices: (B,) int64, numbers of the pairs in the store.
        tokens: real target positions, EOS included.
    """

    source: Tensor
    target_input: Tensor
    target_output: Tensor
    indices: Tensor
    tokens: int

    @property
    def source_mask(self) -> Tensor:
        """(B, S) bool, True at real positions."""
        return self.source != PAD

    @property
    def target_mask(self) -> Tensor:
        """(B, T) bool, True at real positions."""
        return self.target_output != PAD

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device; from pinned memory the copy overlaps with work there."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory."""
        return self._map(lambda tensor: tensor.pin_memory())

    def split(self) -> tuple[Batch, Batch]:
        """The two halves of a batch of at least two pairs, each without needless padding."""
        half = (len(self.indices) + 1) // 2
        return self._rows(slice(None, half)), self._rows(slice(half, None))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(
            change(self.source),
            change(self.target_input),
            change(self.target_output),
            change(self.indices),
            self.tokens,
        )

    def _rows(self, rows: slice) -> Batch:
        source, output = self.source[rows], self.target_output[rows]
        if not len(source):
            raise ValueError("a batch of one pair cannot be split")
        longest_source = int((source != PAD).sum(dim=1).max())
        lengths = (output != PAD).sum(dim=1)
        longest = int(lengths.max())
        return Batch(
            source[:, :longest_source],
            self.target_input[rows, :longest],
            output[:, :longest],
            self.indices[rows],
            int(lengths.sum()),
        )


def collate(
    store: TokenStore,
    indices: Indices | Sequence[int],
    dropout: SubwordDropout | None = None,
    random: np.random.Generator | None = None,
) -> Batch:
    """The batch of some pairs of a store, in the order given.

    Args:
        store: where the ids are.
        indices: (B,) numbers of pairs, B >= 1.
        dropout: how pieces fall apart; None leaves them whole.
        random: the randomness of that.
    """
    chosen = np.asarray(indices, dtype=np.int64)
    source_ids, source_lengths = store.gather_source(chosen), store.source_lengths[chosen]
    target_ids, target_lengths = store.gather_target(chosen), store.target_lengths[chosen]
    if dropout is not None and random is not None:
        p, longest = dropout.probability, dropout.longest
        source_ids, source_lengths = dropout.source.split(source_ids, source_lengths, p, longest, random)
        target_ids, target_lengths = dropout.target.split(target_ids, target_lengths, p, longest, random)
    return Batch(
        source=_padded(source_ids, source_lengths, end=True),
        target_input=_padded(target_ids, target_lengths, end=False),
        target_output=_padded(target_ids, target_lengths, end=True),
        indices=torch.from_numpy(chosen),
        tokens=int(target_lengths.sum()) + len(chosen),
    )


def _padded(ids: Ids, lengths: npt.NDArray[np.int32], *, end: bool) -> Tensor:
    """(B, longest + 1) int64: each line with EOS behind it (end) or BOS before it, then PAD."""
    column = np.arange(int(lengths.max()) + 1)
    rows = np.full((len(lengths), len(column)), PAD, dtype=np.int64)
    if end:
        rows[column < lengths[:, None]] = ids
        rows[np.arange(len(lengths)), lengths] = EOS
    else:
        rows[(column > 0) & (column <= lengths[:, None])] = ids
        rows[:, 0] = BOS
    return torch.from_numpy(rows)


def plan_epoch(
    source_lengths: npt.NDArray[np.integer],
    target_lengths: npt.NDArray[np.integer],
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
    batch_sentences: int | None = None,
    earlier: Sequence[tuple[int, int]] = (),
) -> list[Indices]:
    """The batches of one epoch for one process.

    For every batch of more than one pair: pairs x (longest target + 1) <= batch_tokens and
    pairs x (longest source + 1) <= 1.5 batch_tokens; the 1 is the end-of-sentence symbol. A pair
    longer than that has a batch of its own.

    Args:
        source_lengths: (pairs,) pieces without special symbols.
        target_lengths: (pairs,) likewise.
        batch_tokens: budget of target positions, padding included.
        seed: start of the randomness.
        epoch: pass over the data, from 0.
        rank: this process, below world_size.
        world_size: processes that share the epoch.
        batch_sentences: most pairs in a batch; None = as many as the tokens allow.
        earlier: what other numbers of processes have done of the epoch, first to last: (how many they were,
            batches that each of them did). The plan is then for what they left.

    Returns:
        Arrays of pair numbers; over all ranks each pair once, the same count of arrays on each rank,
        arrays of one position of like size.

    Raises:
        DataError: there are too few pairs to give each process the same number of batches.
    """
    random = np.random.default_rng([seed, epoch])
    source = np.asarray(source_lengths, dtype=np.int64) + 1
    target = np.asarray(target_lengths, dtype=np.int64) + 1
    leader, follower = (target, source) if random.random() < 0.5 else (source, target)
    order = _snake(leader, follower, random)
    first_share = float(random.uniform(0.5, 1.0))
    batches = _cut(order, source, target, batch_tokens, batch_sentences or len(order), first_share)
    for size, done in earlier:
        batches = [batch for group in _groups(batches, size, random)[done:] for batch in group]
    return [group[rank] for group in _groups(batches, world_size, random)]


def _groups(batches: list[Indices], world_size: int, random: np.random.Generator) -> list[list[Indices]]:
    """The batches that run at the same time, one on each rank, in random order.

    Neighbours on the snake cost the same, so they stand together.
    """
    batches = _round_up(batches, world_size)
    order = random.permutation(len(batches) // world_size)
    return [batches[int(i) * world_size : (int(i) + 1) * world_size] for i in order]


def _snake(leader: Indices, follower: Indices, random: np.random.Generator) -> Indices:
    """All pairs ordered by the leader's length; the follower's rises and falls in turn."""
    shuffled = random.permutation(len(leader))
    _, turn = np.unique(leader, return_inverse=True)
    second = np.where((turn + int(random.integers(2))) % 2 == 0, follower, -follower)
    order: Indices = np.lexsort((shuffled, second, leader)).astype(np.int64)
    return order


def _cut(
    order: Indices, source: Indices, target: Indices, budget: int, most_pairs: int, first_share: float
) -> list[Indices]:
    """Consecutive stretches of the order, each as long as the budget allows (the first: a share of it)."""
    source_ordered, target_ordered = source[order], target[order]
    batches = []
    start = 0
    limit = max(1, int(budget * first_share))
    while start < len(order):
        # No more pairs than these can fit, since the longest is at least as long as the first.
        most = min(limit // int(target_ordered[start]), most_pairs)
        stop = min(len(order), start + max(1, most))
        pairs = np.arange(1, stop - start + 1)
        fits = (np.maximum.accumulate(target_ordered[start:stop]) * pairs <= limit) & (
            np.maximum.accumulate(source_ordered[start:stop]) * pairs <= limit * SOURCE_BUDGET_RATIO
        )
        size = max(1, int(np.count_nonzero(fits)))  # both products only grow: the fitting ones come first
        batches.append(order[start : start + size])
        start += size
        limit = budget
    return batches


def _round_up(batches: list[Indices], world_size: int) -> list[Indices]:
    """Halve the batches with the most pairs until their number can be shared equally."""
    missing = -len(batches) % world_size
    if not missing:
        return batches
    largest = sorted(range(len(batches)), key=lambda index: -len(batches[index]))
    pairs = sum(len(batch) for batch in batches)
    if pairs < len(batches) + missing:
        raise DataError(
            f"{pairs} training pairs in {len(batches)} batches cannot be shared by {world_size} processes; "
            f"start fewer processes"
        )
    pieces = {index: 1 for index in largest}
    for _ in range(missing):  # always the batch whose parts are largest
        index = max(largest[: missing + 1], key=lambda i: len(batches[i]) / pieces[i])
        pieces[index] += 1
    return [part for index, batch in enumerate(batches) for part in np.array_split(batch, pieces[index])]


def padding_waste(plan: Sequence[Indices], lengths: npt.NDArray[np.integer]) -> float:
    """Share of a side's positions that is padding, 0 to 1.

    Args:
        plan: batches as of `plan_epoch`.
        lengths: (pairs,) that side's pieces without special symbols.
    """
    real = sum(int(lengths[batch].sum()) + len(batch) for batch in plan)
    padded = sum((int(lengths[batch].max()) + 1) * len(batch) for batch in plan)
    return 1 - real / padded if padded else 0.0


class BatchLoader:
    """Batches for ever, from any (epoch, position) on, made ahead in a background thread.

    Iterating yields (epoch, position, batch). The sequence depends on the arguments of `plan_epoch`
    alone, not on how many batches are made ahead.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        batch_tokens: int,
        batch_sentences: int | None = None,
        seed: int,
        epoch: int = 0,
        position: int = 0,
        rank: int = 0,
        world_size: int = 1,
        earlier: Sequence[tuple[int, int]] = (),
        prefetch_batches: int = 8,
        pin_memory: bool = False,
        subword_dropout: SubwordDropout | None = None,
    ) -> None:
        """
        Args:
            store: the pairs; at least one.
            batch_tokens: see `plan_epoch`.
            batch_sentences: see `plan_epoch`.
            seed: see `plan_epoch`.
            epoch: where to start, from 0.
            position: number of the first batch within that epoch; the end of an epoch is the
                beginning of the next.
            rank: see `plan_epoch`.
            world_size: see `plan_epoch`.
            earlier: see `plan_epoch`; of the first epoch, whose batches are then counted from there.
            prefetch_batches: batches made ahead; 0 makes each when it is asked for, without a thread.
            pin_memory: hand out batches in page-locked memory (for CUDA).
            subword_dropout: take pieces apart, differently in each epoch. Batches are planned by the
                whole pieces, so they then hold some more positions than `batch_tokens`.

        Raises:
            DataError: the store is empty.
        """
        if not len(store):
            raise DataError("there are no training pairs to make batches of")
        self._store = store
        self._batch_tokens = batch_tokens
        self._batch_sentences = batch_sentences
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._first_epoch, self._earlier = epoch, tuple(earlier)
        self._pin_memory = pin_memory
        self._subword_dropout = subword_dropout
        self._waited = 0.0
        self._closed = threading.Event()
        self._batches = self._make(epoch, position)
        self._queue: queue.Queue[tuple[int, int, Batch] | BaseException] | None = None
        self._thread: threading.Thread | None = None
        if prefetch_batches > 0:
            self._queue = queue.Queue(maxsize=prefetch_batches)
            self._thread = threading.Thread(target=self._fill, name="mt-batches", daemon=True)
            self._thread.start()

    @property
    def wait_seconds(self) -> float:
        """Seconds the consumer has waited for batches so far."""
        return self._waited

    def plan(self, epoch: int, rank: int | None = None) -> list[Indices]:
        """The batches of an epoch, of this rank or another."""
        return plan_epoch(
            self._store.source_lengths,
            self._store.target_lengths,
            batch_tokens=self._batch_tokens,
            batch_sentences=self._batch_sentences,
            seed=self._seed,
            epoch=epoch,
            rank=self._rank if rank is None else rank,
            world_size=self._world_size,
            earlier=self._earlier if epoch == self._first_epoch else (),
        )

    def __iter__(self) -> Iterator[tuple[int, int, Batch]]:
        return self

    def __next__(self) -> tuple[int, int, Batch]:
        if self._closed.is_set():
            raise StopIteration
        started = time.perf_counter()
        made = next(self._batches) if self._queue is None else self._queue.get()
        self._waited += time.perf_counter() - started
        if isinstance(made, BaseException):
            self._closed.set()
            raise made
        return made

    def close(self) -> None:
        """Stop the thread; the loader yields nothing more."""
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> BatchLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, epoch: int, position: int) -> Iterator[tuple[int, int, Batch]]:
        while True:
            plan = self.plan(epoch)
            before = [n for both in self._earlier for n in both] if epoch == self._first_epoch else []
            if position > len(plan):
                raise ValueError(f"position {position} lies beyond the {len(plan)} batches of epoch {epoch}")
            for number in range(position, len(plan)):
                random = None
                if self._subword_dropout is not None:
                    random = np.random.default_rng([self._seed, epoch, number, self._rank, *before])
                batch = collate(self._store, plan[number], self._subword_dropout, random)
                yield epoch, number, batch.pin_memory() if self._pin_memory else batch
            epoch, position = epoch + 1, 0

    def _fill(self) -> None:
        """The thread: batches, or what went wrong, into the queue until closed."""
        made: tuple[int, int, Batch] | BaseException
        while not self._closed.is_set():
            try:
                made = next(self._batches)
            except BaseException as error:  # whatever it is, the consumer must hear of it
                made = error
            self._put(made)
            if isinstance(made, BaseException):
                return

    def _put(self, made: tuple[int, int, Batch] | BaseException) -> None:
        assert self._queue is not None
        while not self._closed.is_set():
            try:
                self._queue.put(made, timeout=0.1)
            except queue.Full:
                continue
            return
