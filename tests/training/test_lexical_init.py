"""Lexical start: pieces that translate each other are close; unknown pieces stay random."""

import math

import numpy as np
import pytest
import torch

from mt.config.schema import AttentionConfig, Heads, Initialization, ModelConfig, ScoreKind, TieEmbeddings
from mt.data.store import TokenStore
from mt.kernels.packing import Packing
from mt.models.build import build_model
from mt.training import lexical_init as module
from mt.training.lexical_init import cooccurrence_vectors, initialize_lexically

WORDS, SIZE = 12, 40  # source ids 4..15 translate to target ids 20..31, 36.. never occur


def corpus(pairs=400):
    generator = np.random.default_rng(0)
    source = [generator.choice(WORDS, size=4, replace=False) + 4 for _ in range(pairs)]
    return TokenStore.of(source, [line[::-1] + 16 for line in source])


def cosine(a, b):
    return torch.nn.functional.normalize(a, dim=1) @ torch.nn.functional.normalize(b, dim=1).T


def test_translations_are_the_nearest_neighbours():
    source, target, source_counts, target_counts = cooccurrence_vectors(corpus(), SIZE, SIZE, 16, seed=0)
    similarity = cosine(source[4 : 4 + WORDS], target)
    assert similarity.argmax(1).tolist() == list(range(20, 20 + WORDS))
    assert source_counts[4:16].sum() == 1600 == target_counts[20:32].sum()
    assert source[20:].abs().max() < 1e-3 > target[:20].abs().max()


def test_full_rank_gives_the_matrix_back():
    """U Σ Vᵀ is the matrix of the formula, computed here by counting."""
    store = corpus(60)
    source, target, *_ = cooccurrence_vectors(store, SIZE, SIZE, SIZE, seed=0)
    for s, t in [(4, 20), (5, 21), (4, 25), (9, 30)]:
        both = sum(s in store.source(i) and t in store.target(i) for i in range(60))
        n_s = sum(s in store.source(i) for i in range(60))
        n_t = sum(t in store.target(i) for i in range(60))
        expected = max(0.0, math.log(both * 60 / (n_s * n_t))) * both / (both + 2) if both else 0.0
        assert (source[s] @ target[t]).item() == pytest.approx(expected, abs=1e-3)


def test_chunks_and_seeds(monkeypatch):
    store = corpus()
    whole = cooccurrence_vectors(store, SIZE, SIZE, 8, seed=0)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 7)
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    for one, other in zip(whole, cooccurrence_vectors(store, SIZE, SIZE, 8, seed=0), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())  # dropout's generator is left alone
    monkeypatch.setattr(module, "MOST_PAIRS", 50)
    assert cooccurrence_vectors(store, SIZE, SIZE, 8, seed=0)[2].sum() == 200


@pytest.mark.parametrize("tie", list(TieEmbeddings))
def test_every_way_of_tying(tie):
    torch.manual_seed(0)
    config = ModelConfig(
        width=16, heads=2, ffn_width=16, encoder_layers=1, decoder_layers=1, tie_embeddings=tie
    )
    model = build_model(config, AttentionConfig(), SIZE, SIZE)
    before = model.output_weight.detach().clone()
    initialize_lexically(model, corpus(), seed=0)
    source, output = model.source_embedding.weight.detach(), model.output_weight.detach()
    similarity = cosine(source[4 : 4 + WORDS], output[20:32])
    assert similarity.argmax(1).tolist() == list(range(WORDS))
    assert torch.equal(model.target_embedding.weight[20:32], output[20:32])
    torch.testing.assert_close(output[20:32].norm(dim=1), torch.ones(WORDS))
    assert torch.equal(output[36:], before[36:])  # never seen


def test_nothing_to_learn_leaves_everything_random(caplog):
    model = build_model(
        ModelConfig(width=16, heads=2, ffn_width=16, encoder_layers=1, decoder_layers=1),
        AttentionConfig(),
        SIZE,
        SIZE,
    )
    before = model.output_weight.detach().clone()
    initialize_lexically(model, TokenStore.of([[5, 6]] * 3, [[7]] * 3), seed=0)
    assert torch.equal(before, model.output_weight) and "stay random" in caplog.text


@pytest.mark.parametrize("heads", list(Heads))
@pytest.mark.parametrize("kind", list(ScoreKind))
def test_what_is_attended_is_handed_on(kind, heads):
    """With one source position, attention is certain: cross-attention returns half of its memory."""
    torch.manual_seed(0)
    config = ModelConfig(width=16, heads=2, ffn_width=16, encoder_layers=1, decoder_layers=2)
    model = build_model(config, AttentionConfig(score=kind, heads=heads), SIZE, SIZE)
    initialize_lexically(model, corpus(), seed=0)
    mask = torch.ones(3, 1, dtype=torch.bool)
    memory = torch.randn(3, 16)
    for layer in model.decoder:
        prepared = layer.cross.prepare(memory, Packing(mask, 2))
        positions = torch.zeros(3, dtype=torch.int64)
        attended = layer.cross.step(torch.randn(3, 16), prepared, mask[:, None, None], positions)
        torch.testing.assert_close(attended, memory / 2)


def test_before_training_attended_words_have_likely_translations():
    torch.manual_seed(0)
    config = ModelConfig(
        width=128, heads=2, ffn_width=16, encoder_layers=1, decoder_layers=2, dropout=0.0,
        initialization=Initialization.lexical,
    )  # fmt: skip
    model = build_model(config, AttentionConfig(), SIZE, SIZE).eval()
    store = corpus()

    def advantage():
        """By how much the translations' logits exceed those of the other words, over 20 sentences."""
        differences = []
        for pair in range(20):
            source = torch.from_numpy(store.source(pair).astype("int64"))[None]
            mask = torch.ones_like(source, dtype=torch.bool)
            logits, _ = model.step(torch.tensor([1]), model.init_state(model.encode(source, mask), mask))
            right = set(store.target(pair).tolist())
            others = [word for word in range(20, 20 + WORDS) if word not in right]
            differences.append(logits[0, list(right)].mean() - logits[0, others].mean())
        return torch.stack(differences).mean().item()

    before = advantage()
    initialize_lexically(model, store, seed=0)
    assert advantage() > before + 0.4
