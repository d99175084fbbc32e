"""The Transformer: incremental = full, padding and neighbours irrelevant, every option matters."""

import dataclasses
import itertools

import pytest
import torch
from torch.nn import functional as F

from mt.config.schema import (
    Activation,
    AttentionConfig,
    Heads,
    ModelConfig,
    Norm,
    Positions,
    Precision,
    ScopeKind,
    ScoreKind,
    TieEmbeddings,
)
from mt.kernels.linear import set_precision
from mt.models.build import build_model
from mt.models.positions import sinusoidal_table
from mt.models.seq2seq import parameter_count
from mt.models.state import reorder, repeat
from mt.training.loss import label_smoothed_loss

V = 40
SMALL = ModelConfig(
    width=16, heads=2, ffn_width=24, encoder_layers=2, decoder_layers=2, max_positions=20, dropout=0.0
)


def make(attention=None, seed=0, **changes):
    torch.manual_seed(seed)
    return build_model(dataclasses.replace(SMALL, **changes), attention or AttentionConfig(), V, V)


def batch():
    generator = torch.Generator().manual_seed(7)
    source = torch.randint(4, V, (3, 7), generator=generator)
    target = torch.randint(4, V, (3, 6), generator=generator)
    source_mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    target_mask = torch.arange(6) < torch.tensor([[3], [6], [1]])
    return source, source_mask, target, target_mask


def full_pass_checked_step_by_step(model):
    """The logits of a teacher-forced pass over `batch`, which n steps must equal."""
    source, source_mask, target, target_mask = batch()
    full = model.logits(model(source, source_mask, target, target_mask))
    state = model.init_state(model.encode(source, source_mask), source_mask)
    steps = []
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], state)
        steps.append(logits)
    torch.testing.assert_close(torch.stack(steps, 1)[target_mask], full, rtol=1e-4, atol=1e-5)
    return full


@pytest.mark.parametrize(("positions", "norm", "kind"), list(itertools.product(Positions, Norm, ScoreKind)))
@torch.no_grad()
def test_incremental_equals_full(positions, norm, kind):
    model = make(AttentionConfig(score=kind), positions=positions, norm=norm).eval()
    full_pass_checked_step_by_step(model)


def test_steps_use_the_weights_as_they_are_now():
    """Also after an optimizer that leaves version counters alone."""
    model = make()
    source, source_mask, target, target_mask = batch()

    def both():
        with torch.no_grad():
            full = model.logits(model(source, source_mask, target, target_mask))
            state = model.init_state(model.encode(source, source_mask), source_mask)
            return model.step(target[:, 0], state)[0], full[[0, 3, 9]]

    before = both()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model.logits(model(source, source_mask, target, target_mask)).square().sum().backward()
    optimizer.step()
    after = both()
    for step, full in (before, after):
        torch.testing.assert_close(step, full, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before[0], after[0])


def attentions():
    """Every score in every place, with every scope and both kinds of heads."""
    for kind, scope, heads in itertools.product(ScoreKind, ScopeKind, Heads):
        yield AttentionConfig(score=kind, scope=scope, window=2, heads=heads)
    for place, kind in itertools.product(("encoder", "decoder", "cross"), ScoreKind):
        yield AttentionConfig(**{place: kind})


def name_of(attention):
    return "-".join(str(value.name) for value in vars(attention).values() if hasattr(value, "name"))


@pytest.mark.parametrize("attention", list(attentions()), ids=name_of)
@torch.no_grad()
def test_every_attention_decodes_step_by_step_and_ignores_padding(attention):
    model = make(attention).eval()
    source, source_mask, target, target_mask = batch()
    full = full_pass_checked_step_by_step(model)
    wide, wide_mask = F.pad(source, (0, 5), value=9), F.pad(source_mask, (0, 5))
    padded = model.logits(model(wide, wide_mask, target, target_mask))
    torch.testing.assert_close(padded, full, rtol=1e-4, atol=1e-5)
    weights = model.cross_attention(wide, wide_mask, target)
    assert not weights.masked_select(~wide_mask[:, None, None, None]).any()
    if attention.scope is ScopeKind["local_m"]:
        far = (torch.arange(12) - torch.arange(6)[:, None]).abs() > attention.window
        assert not weights[..., far].any()


@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
def test_every_score_learns_in_every_place(place):
    """Each parameter of a score and of a scope gets a gradient."""
    source, source_mask, target, target_mask = batch()
    for kind in ScoreKind:
        model = make(AttentionConfig(**{place: kind}, scope=ScopeKind["local_p"]))
        model(source, source_mask, target, target_mask).square().sum().backward()
        idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert idle == [], kind


@torch.no_grad()
def test_beam_hypotheses_are_independent():
    """Repeating and re-ordering the cache gives what each hypothesis gives alone."""
    model = make(AttentionConfig(score=ScoreKind.additive, scope=ScopeKind["local_m"], window=1)).eval()
    source, source_mask, target, _ = batch()
    state = model.init_state(model.encode(source, source_mask), source_mask)
    wide = {"memory": state["memory"], "cache": repeat(state["cache"], 2)}
    tokens = torch.stack((target[:, 0], target[:, 1]), 1).flatten()
    _, wide = model.step(tokens, wide)
    order = torch.tensor([1, 0, 3, 2, 4, 4])
    wide["cache"] = reorder(wide["cache"], order)
    got, _ = model.step(tokens, wide)
    for row in range(6):
        one = slice(row // 2, row // 2 + 1)
        alone = model.init_state(model.encode(source[one], source_mask[one]), source_mask[one])
        _, alone = model.step(tokens[order[row]][None], alone)
        expected, _ = model.step(tokens[row : row + 1], alone)
        torch.testing.assert_close(got[row : row + 1], expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_padding_and_neighbours_change_nothing():
    model = make().eval()
    source, source_mask, target, target_mask = batch()
    together = model(source, source_mask, target, target_mask)
    garbage = model(
        source.masked_fill(~source_mask, 9), source_mask, target.masked_fill(~target_mask, 11), target_mask
    )
    assert torch.equal(together, garbage)
    alone = []
    for b in range(3):
        s, t = int(source_mask[b].sum()), int(target_mask[b].sum())
        one = slice(b, b + 1)
        alone.append(model(source[one, :s], source_mask[one, :s], target[one, :t], target_mask[one, :t]))
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_decoder_cannot_see_the_future():
    model = make().eval()
    source, source_mask, target, _ = batch()
    everything = torch.ones_like(target, dtype=torch.bool)
    before = model(source, source_mask, target, everything).view(3, 6, -1)
    target = target.clone()
    target[:, 4] = 5
    after = model(source, source_mask, target, everything).view(3, 6, -1)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


OPTIONS = [
    {"norm": Norm.post},
    {"activation": Activation.gelu},
    {"positions": Positions.learned},
    {"positions": Positions.rotary},
    {"tie_embeddings": TieEmbeddings.decoder},
    {"tie_embeddings": TieEmbeddings.none},
    {"heads": 4},
    {"width": 32},
    {"ffn_width": 32},
    {"encoder_layers": 1},
    {"decoder_layers": 1},
]


@pytest.mark.parametrize("change", OPTIONS, ids=lambda change: str(next(iter(change.items()))))
@torch.no_grad()
def test_every_shape_option_changes_the_output(change):
    source, source_mask, target, target_mask = batch()
    plain = make().eval()
    changed = make(**change).eval()
    a = plain.logits(plain(source, source_mask, target, target_mask))
    b = changed.logits(changed(source, source_mask, target, target_mask))
    assert a.shape == b.shape and not torch.allclose(a, b)


@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
@torch.no_grad()
def test_each_place_takes_its_own_score(place):
    source, source_mask, target, target_mask = batch()
    plain = make().eval()
    changed = make(AttentionConfig(**{place: ScoreKind.dot})).eval()
    everywhere = make(AttentionConfig(score=ScoreKind.dot)).eval()
    outs = [m(source, source_mask, target, target_mask) for m in (plain, changed, everywhere)]
    assert not torch.allclose(outs[0], outs[1]) and not torch.allclose(outs[1], outs[2])


def test_every_attention_option_changes_the_output():
    source, source_mask, target, target_mask = batch()
    additive, local = ScoreKind.additive, ScopeKind["local_m"]
    pairs = [
        *(({}, {"score": kind}) for kind in ScoreKind if kind is not ScoreKind.scaled_dot),
        *(({}, {"scope": scope, "window": 1}) for scope in ScopeKind if scope is not ScopeKind["global"]),
        ({"scope": local, "window": 1}, {"scope": local, "window": 2}),
        ({"score": additive}, {"score": additive, "hidden": 3}),
        ({}, {"heads": Heads.summed}),
    ]
    with torch.no_grad():
        for before, after in pairs:
            outs = [
                make(AttentionConfig(**options)).eval()(source, source_mask, target, target_mask)
                for options in (before, after)
            ]
            assert not torch.allclose(*outs), (before, after)


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
def test_every_dropout_is_noise_in_training_only(name):
    source, source_mask, target, target_mask = batch()
    model = make(**{name: 0.5})
    noisy = [model(source, source_mask, target, target_mask) for _ in range(2)]
    assert not torch.equal(*noisy)
    model.eval()
    quiet = [model(source, source_mask, target, target_mask) for _ in range(2)]
    assert torch.equal(*quiet)


def test_ties_share_storage_and_count_once():
    sizes = {tie: parameter_count(make(tie_embeddings=tie)) for tie in TieEmbeddings}
    matrix = V * SMALL.width
    assert sizes[TieEmbeddings.decoder] == sizes[TieEmbeddings.all] + matrix
    assert sizes[TieEmbeddings.none] == sizes[TieEmbeddings.all] + 2 * matrix
    model = make()
    pointers = {
        p.data_ptr()
        for n, p in model.named_parameters(remove_duplicate=False)
        if "embedding" in n or n.startswith("output")
    }
    assert len(pointers) == 1


def test_parameter_count_is_the_formula():
    d, f, heads = SMALL.width, SMALL.ffn_width, SMALL.heads
    k, places = d // heads, SMALL.max_positions
    of_score = {
        ScoreKind.scaled_dot: 0,
        ScoreKind.dot: 0,
        ScoreKind.general: heads * k * k,
        ScoreKind.concat: heads * (2 * k * k + k),
        ScoreKind.additive: heads * (2 * k * k + k),
        ScoreKind.location: heads * places * k,
        ScoreKind.none: 0,
    }
    feed_forward, norm = 2 * d * f + d + f, 2 * d
    for kind, own in of_score.items():
        attention = 4 * d * d + 4 * d + own
        encoder = SMALL.encoder_layers * (attention + feed_forward + 2 * norm) + norm
        decoder = SMALL.decoder_layers * (2 * attention + feed_forward + 3 * norm) + norm
        assert parameter_count(make(AttentionConfig(score=kind))) == V * d + encoder + decoder
    summed = parameter_count(make(AttentionConfig(heads=Heads.summed))) - parameter_count(make())
    count = SMALL.encoder_layers + 2 * SMALL.decoder_layers
    assert summed == count * ((2 + heads) * d * d - (4 * d * d + 4 * d))


def test_bf16_is_close_to_fp32_and_not_equal():
    source, source_mask, target, target_mask = batch()
    model = make().eval()
    exact = model(source, source_mask, target, target_mask)
    set_precision(model, Precision.bf16)
    rounded = model(source, source_mask, target, target_mask)
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(exact, rounded, rtol=0.1, atol=0.1)


@torch.no_grad()
def test_cross_attention_weights():
    model = make(dropout=0.3)
    source, source_mask, target, _ = batch()
    weights = model.cross_attention(source, source_mask, target)
    assert weights.shape == (3, 2, 2, 6, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 2, 6))
    assert not weights[1, :, :, :, 4:].any()
    assert model.training
    assert torch.equal(weights, model.cross_attention(source, source_mask, target))


def test_sinusoidal_table_is_the_papers():
    table = sinusoidal_table(50, 8)
    for pos, i in [(0, 0), (1, 0), (7, 2), (49, 3)]:
        angle = torch.tensor(pos / 10000 ** (2 * i / 8))
        torch.testing.assert_close(table[pos, 2 * i : 2 * i + 2], torch.stack((angle.sin(), angle.cos())))


@torch.no_grad()
def test_rotary_scores_depend_on_distance_only():
    from mt.models.positions import PositionEncoding

    encoding = PositionEncoding(Positions.rotary, 30, 16, 8)
    q, k = torch.randn(8), torch.randn(8)

    def product(i, j):
        at_i = encoding.rotation(torch.tensor([i])).apply(q[None])
        at_j = encoding.rotation(torch.tensor([j])).apply(k[None])
        return (at_i * at_j).sum()

    torch.testing.assert_close(product(3, 1), product(20, 18), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(product(3, 1), product(3, 2))


def test_tied_vocabularies_must_agree():
    with pytest.raises(ValueError, match="40 pieces, target 41"):
        build_model(SMALL, AttentionConfig(), V, V + 1)


def test_learns_to_copy():
    """A tiny model learns a tiny task to the end, and does it on sentences that it has not seen."""
    torch.manual_seed(0)
    model = make(width=32, heads=2, ffn_width=64, encoder_layers=1, decoder_layers=1)
    steps = 250
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    # At a constant rate the last steps jump to and fro around the end.
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)

    def pass_through(count):
        source = torch.randint(4, 12, (count, 5))
        target_input = torch.cat((torch.ones(count, 1, dtype=torch.int64), source[:, :-1]), 1)
        mask = torch.ones_like(source, dtype=torch.bool)
        return model(source, mask, target_input, mask), source.flatten()

    for _ in range(steps):
        hidden, expected = pass_through(32)
        loss, _ = label_smoothed_loss(hidden, model.output_weight, None, expected, 0.0)
        (loss / len(expected)).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()
    with torch.no_grad():
        hidden, expected = pass_through(1000)
    assert (model.logits(hidden).argmax(-1) == expected).float().mean().item() > 0.97


def test_loss_matches_torch_through_the_model():
    source, source_mask, target, target_mask = batch()
    model = make()
    hidden = model(source, source_mask, target, target_mask)
    loss, nll = label_smoothed_loss(hidden, model.output_weight, None, target[target_mask], 0.1)
    logits = model.logits(hidden)
    expected = F.cross_entropy(logits, target[target_mask], label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, target[target_mask], reduction="sum").detach())
    got = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    right = torch.autograd.grad(expected, list(model.parameters()))
    for value, other in zip(got, right, strict=True):
        torch.testing.assert_close(value, other, rtol=1e-3, atol=1e-4)
