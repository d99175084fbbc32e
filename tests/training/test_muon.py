"""Muon: orthogonal updates of the stated size, stacked matrices apart, state that can be stored."""

import pytest
import torch

from mt.config.schema import (
    AttentionConfig,
    ModelConfig,
    OptimizerConfig,
    OptimizerKind,
    Positions,
    TieEmbeddings,
)
from mt.models.build import build_model
from mt.training.muon import Muon, orthogonalize
from mt.training.optimizer import Updater


def muon(*matrices, **options):
    return Muon([{"params": list(matrices), "muon": True}], **options)


@pytest.mark.parametrize("shape", [(8, 8), (8, 20), (20, 8)])
def test_singular_values_are_levelled_and_vectors_kept(shape):
    torch.manual_seed(0)
    short = min(shape)
    u, _ = torch.linalg.qr(torch.randn(shape[0], short, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(shape[1], short, dtype=torch.float64))
    values = torch.logspace(0, -2, short, dtype=torch.float64)  # a condition number of 100
    out = orthogonalize((u * values @ v.T)[None], iterations=5)[0]
    levelled = u.T @ out @ v
    torch.testing.assert_close(levelled, levelled.diag().diag(), atol=1e-6, rtol=0)
    assert levelled.diag().min() > 0.6 and levelled.diag().max() < 1.3


def test_a_batch_is_its_matrices():
    torch.manual_seed(0)
    stack = torch.randn(4, 6, 10)
    together = orthogonalize(stack, 5)
    for one, out in zip(stack, together, strict=True):
        torch.testing.assert_close(orthogonalize(one[None], 5)[0], out)


def test_update_has_the_size_of_the_rate_and_parts_are_apart():
    torch.manual_seed(0)
    stacked = torch.nn.Parameter(torch.zeros(3 * 16, 16))
    apart = [torch.nn.Parameter(torch.zeros(16, 16)) for _ in range(3)]
    gradient = torch.randn(48, 16)
    gradient[16:32] *= 1000.0  # one part's scale must not touch the others
    stacked.grad = gradient.clone()
    for parameter, piece in zip(apart, gradient.split(16), strict=True):
        parameter.grad = piece.clone()
    Muon([{"params": [stacked], "muon": True, "parts": [3]}], lr=0.01).step()
    muon(*apart, lr=0.01).step()
    torch.testing.assert_close(stacked.detach(), torch.cat([p.detach() for p in apart]))
    assert stacked.detach().square().mean().sqrt().item() == pytest.approx(0.01, rel=0.2)


def test_momentum_weight_decay_and_iterations_matter():
    def run(**options):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(6, 6))
        optimizer = muon(weight, lr=0.1, **options)
        for _ in range(3):
            weight.grad = torch.randn(6, 6)
            optimizer.step()
        return weight.detach()

    plain = run()
    for change in ({"momentum": 0.5}, {"weight_decay": 0.1}, {"iterations": 2}):
        assert not torch.allclose(plain, run(**change))


def test_state_goes_on_where_it_stopped():
    def gradients():
        torch.manual_seed(1)
        return [torch.randn(5, 7) for _ in range(4)]

    whole = torch.nn.Parameter(torch.zeros(5, 7))
    optimizer = muon(whole, lr=0.1)
    for gradient in gradients():
        whole.grad = gradient
        optimizer.step()
    first = torch.nn.Parameter(torch.zeros(5, 7))
    optimizer = muon(first, lr=0.1)
    for gradient in gradients()[:2]:
        first.grad = gradient
        optimizer.step()
    second = torch.nn.Parameter(first.detach().clone())
    resumed = muon(second, lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    for gradient in gradients()[2:]:
        second.grad = gradient
        resumed.step()
    assert torch.equal(whole, second)


def test_the_rest_is_adamw():
    torch.manual_seed(0)
    ours, theirs = torch.nn.Parameter(torch.ones(4, 3)), torch.nn.Parameter(torch.ones(4, 3))
    a = Muon([{"params": [ours]}], lr=0.1, betas=(0.8, 0.9), eps=1e-7, weight_decay=0.1)
    b = torch.optim.AdamW([theirs], lr=0.1, betas=(0.8, 0.9), eps=1e-7, weight_decay=0.1)
    for _ in range(3):
        ours.grad = torch.randn(4, 3)
        theirs.grad = ours.grad.clone()
        a.step()
        b.step()
    torch.testing.assert_close(ours, theirs)


def test_which_parameters_are_whose():
    """Muon takes the layers' matrices; embeddings, output, positions, norms and biases stay with AdamW."""
    config = ModelConfig(
        width=8, heads=2, ffn_width=8, encoder_layers=1, decoder_layers=1, positions=Positions.learned,
        tie_embeddings=TieEmbeddings.none,
    )  # fmt: skip
    model = build_model(config, AttentionConfig(), 20, 20)
    updater = Updater(model, OptimizerConfig(kind=OptimizerKind.muon))
    matrices = set(map(id, updater.optimizer.param_groups[0]["params"]))
    assert updater.optimizer.param_groups[0]["muon"]
    names = {name for name, p in model.named_parameters() if id(p) in matrices}
    assert names == {
        name
        for name, p in model.named_parameters()
        if name.startswith(("encoder.", "decoder.")) and p.ndim == 2
    }
    parts = dict(zip(updater.names, updater.optimizer.param_groups[0]["parts"], strict=False))
    assert parts["decoder.0.cross.key_value.weight"] == 2
    assert parts["encoder.0.attention.query_key_value.weight"] == 3
    updater.set_rate(0.5)
    config_ = OptimizerConfig()
    rates = [group["lr"] for group in updater.optimizer.param_groups]
    assert rates == [pytest.approx(0.5 * config_.matrix_lr / config_.lr), 0.5, 0.5]


def test_solves_a_least_squares_problem():
    torch.manual_seed(0)
    x, w = torch.randn(200, 8), torch.randn(4, 8)
    weight = torch.nn.Parameter(torch.zeros(4, 8))
    optimizer = muon(weight, lr=0.1)
    for step in range(200):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 - step / 200)
        optimizer.zero_grad()
        (x @ weight.T - x @ w.T).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(weight.detach(), w, atol=0.02, rtol=0)
