"""The decoder's state between two steps: a tree of tensors, and how to pick rows of it.

A state is ``{"memory": tree, "cache": tree}``; a tree is a tensor or a dict, list, tuple of trees.

* ``memory`` is constant while a sentence is decoded (cross-attention keys and values, masks): axis 0
  of every tensor counts *sentences*.
* ``cache`` changes with every step (self-attention keys and values, hidden states, the position
  counter): axis 0 of every tensor counts *hypotheses*. The hypotheses of one sentence are neighbours,
  so N hypotheses for B sentences are the rows of a (B, N // B, ...) view.

Splitting the two keeps the largest tensors out of the beam's way: memory is never repeated over the
beam, and moves only when a sentence is finished and leaves the batch.

Not in here: what a model keeps in its trees, and when rows are picked (`mt.decoding.search`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from torch import Tensor

Tree: TypeAlias = Any
State: TypeAlias = dict[str, Tree]


def reorder(tree: Tree, index: Tensor) -> Tree:
    """The rows `index` (M,) int64 of every tensor in `tree`, on axis 0; repeats and omissions allowed.

    The result shares no memory with `tree`. ``None`` leaves stay ``None``.

    Raises:
        TypeError: a leaf is neither a tensor nor None.
    """
    if isinstance(tree, Tensor):
        return tree.index_select(0, index)
    if isinstance(tree, dict):
        return {key: reorder(branch, index) for key, branch in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(reorder(branch, index) for branch in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(reorder(branch, index) for branch in tree)
    if tree is None:
        return None
    raise TypeError(f"a decoder state holds tensors in dicts, lists and tuples, not {type(tree).__name__}")


def repeat(tree: Tree, times: int) -> Tree:
    """Every row of every tensor in `tree`, `times` times in place: rows a, b become a, a, b, b for 2."""
    if isinstance(tree, Tensor):
        return tree.repeat_interleave(times, dim=0)
    if isinstance(tree, dict):
        return {key: repeat(branch, times) for key, branch in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(repeat(branch, times) for branch in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(repeat(branch, times) for branch in tree)
    if tree is None:
        return None
    raise TypeError(f"a decoder state holds tensors in dicts, lists and tuples, not {type(tree).__name__}")


def select(state: State, *, sentences: Tensor | None = None, hypotheses: Tensor | None = None) -> State:
    """A state of other rows: memory of `sentences` (B',), cache of `hypotheses` (N',); None keeps all."""
    return {
        "memory": state["memory"] if sentences is None else reorder(state["memory"], sentences),
        "cache": state["cache"] if hypotheses is None else reorder(state["cache"], hypotheses),
    }
