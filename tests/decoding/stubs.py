"""Small models and a tokenizer of words, whose right answers can be worked out by hand or by force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

PAD, BOS, EOS, UNK = 0, 1, 2, 3


class TinyRecurrent(nn.Module):
    """A recurrent decoder with random weights: every step depends on the whole history and the sentence.

    The history is in the cache, the sentence in the memory, so a wrong order of either changes the
    result.
    """

    def __init__(self, vocabulary: int, seed: int, width: int = 6, sharpness: float = 2.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        self.embedding = nn.Parameter(random(vocabulary, width))
        self.mixing = nn.Parameter(random(width, width) / width**0.5)
        self.output = nn.Parameter(random(width, vocabulary) * sharpness / width**0.5)
        self.max_positions = 64
        self.rows_run = 0
        self.dropout = nn.Dropout(0.5)

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        return self.dropout(self.embedding[source % len(self.embedding)]) * source_mask.unsqueeze(2)

    def init_state(self, memory: Tensor, memory_mask: Tensor) -> dict[str, Any]:
        summary = (memory * memory_mask.unsqueeze(2)).sum(1)
        return {
            "memory": {"summary": summary, "mask": memory_mask},
            "cache": [(torch.zeros_like(summary), torch.zeros(len(summary), dtype=torch.long)), None],
        }

    def step(self, tokens: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        self.rows_run += len(tokens)
        summary = state["memory"]["summary"]
        (hidden, position), _ = state["cache"]
        beam = len(tokens) // len(summary)
        summary = summary.repeat_interleave(beam, dim=0)
        hidden = torch.tanh(hidden @ self.mixing + self.embedding[tokens] + 0.5 * summary)
        return hidden @ self.output, {"memory": state["memory"], "cache": [(hidden, position + 1), None]}


class Scripted(nn.Module):
    """Logits from a function of (sentence's source ids, tokens so far), for cases worked out by hand."""

    def __init__(
        self, logits: Callable[[list[int], list[int]], Sequence[float]], max_positions: int = 64
    ) -> None:
        super().__init__()
        self.rule = logits
        self.max_positions = max_positions
        self.sentences_run = 0

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        return source.unsqueeze(2).float()

    def init_state(self, memory: Tensor, memory_mask: Tensor) -> dict[str, Any]:
        self.sentences_run += len(memory)
        return {
            "memory": (memory.squeeze(2).long(), memory_mask),
            "cache": torch.empty((len(memory), 0), dtype=torch.long),
        }

    def step(self, tokens: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        source, mask = state["memory"]
        history = torch.cat([state["cache"], tokens.unsqueeze(1)], dim=1)
        beam = len(tokens) // len(source)
        rows = []
        for row, line in enumerate(history.tolist()):
            ids = source[row // beam][mask[row // beam]].tolist()
            rows.append(list(self.rule(ids[:-1], line[1:])))
        return torch.tensor(rows, dtype=torch.float32), {"memory": state["memory"], "cache": history}


class Words:
    """A tokenizer of whole words: ids 4, 5, ... in the order of `vocabulary`; everything else is unknown."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.words = list(vocabulary)
        self.ids = {word: 4 + index for index, word in enumerate(self.words)}

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[self.ids.get(word, UNK) for word in line.split()] for line in lines]

    def decode(self, ids: Sequence[int], unknown: str = "") -> str:
        names = (unknown if index == UNK else self.words[index - 4] for index in ids if index > EOS)
        return " ".join(name for name in names if name)

    def unknown_share(self, line: str) -> float:
        words = line.split()
        return sum(word not in self.ids for word in words) / max(1, len(words))
