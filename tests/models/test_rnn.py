"""Recurrent models: every variant steps as it is trained, padding changes nothing, sizes are the papers'."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mt.config.composition import Composition, open_hydra
from mt.config.schema import (
    AttentionConfig,
    Cell,
    Feed,
    Initialization,
    ModelConfig,
    ModelKind,
    Readout,
    ScoreKind,
    Start,
    StateIndex,
    TieEmbeddings,
    TrainConfig,
)
from mt.kernels.linear import Linear
from mt.models.build import build_model
from mt.models.rnn import Rnn
from mt.models.rnn_cells import Gru, Lstm
from mt.models.seq2seq import parameter_count
from mt.models.state import repeat, select
from tests.models.rnn_world import ATTENTIONS, TARGET, VARIANTS, batch, make, name_of

BAHDANAU = {
    "cell": Cell.gru,
    "query": StateIndex.previous,
    "feed": Feed.context_in_gates,
    "readout": Readout.maxout,
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def steps_match(model: Rnn) -> None:
    source, source_mask, target, target_mask = batch()
    expected = model.logits(model(source, source_mask, target, target_mask))
    state = model.init_state(model.encode(source, source_mask), source_mask)
    logits = []
    for tokens in target.unbind(1):
        out, state = model.step(tokens, state)
        logits.append(out)
    torch.testing.assert_close(torch.stack(logits, 1)[target_mask], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_steps_give_what_the_whole_pass_gives(variant: dict[str, Any]) -> None:
    with torch.no_grad():
        steps_match(make(layers=2, **variant))


@pytest.mark.parametrize(("score", "scope"), ATTENTIONS)
@pytest.mark.parametrize("feed", [Feed.none, Feed.input_feeding, Feed.context_in_gates])
def test_steps_give_what_the_whole_pass_gives_with_any_attention(
    score: ScoreKind, scope: str, feed: Feed
) -> None:
    with torch.no_grad():
        steps_match(make(score, scope, feed=feed, query=StateIndex.previous))


@pytest.mark.parametrize("start", list(Start))
@pytest.mark.parametrize("cell", list(Cell))
def test_steps_give_what_the_whole_pass_gives_from_any_start(start: Start, cell: Cell) -> None:
    with torch.no_grad():
        steps_match(make(cell=cell, start=start, layers=2))
        steps_match(make(cell=cell, start=start, bidirectional=False, reverse_source=True))


@pytest.mark.parametrize(("score", "scope"), ATTENTIONS)
def test_hypotheses_of_a_beam_do_not_disturb_each_other(score: ScoreKind, scope: str) -> None:
    model = make(score, scope, **(BAHDANAU if score is ScoreKind.none else {}))
    source, source_mask, _, _ = batch()
    with torch.no_grad():
        state = model.init_state(model.encode(source, source_mask), source_mask)
        beam = {"memory": state["memory"], "cache": repeat(state["cache"], 2)}
        tokens = torch.tensor([5, 6, 7, 8, 9, 10])
        _, beam = model.step(tokens, beam)
        beam = select(beam, sentences=torch.tensor([2, 0]), hypotheses=torch.tensor([5, 4, 0, 1]))
        together, _ = model.step(torch.tensor([11, 12, 13, 14]), beam)
        for row, (sentence, first, second) in enumerate([(2, 10, 11), (2, 9, 12), (0, 5, 13), (0, 6, 14)]):
            alone = select(state, sentences=torch.tensor([sentence]), hypotheses=torch.tensor([sentence]))
            _, alone = model.step(torch.tensor([first]), alone)
            logits, _ = model.step(torch.tensor([second]), alone)
            torch.testing.assert_close(logits[0], together[row], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", list(Cell))
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("start", list(Start))
def test_padding_and_neighbours_change_nothing(
    layers: int, cell: Cell, bidirectional: bool, start: Start
) -> None:
    model = make(
        layers=layers, cell=cell, bidirectional=bidirectional, reverse_source=not bidirectional, start=start
    )
    source, source_mask, target, target_mask = batch()
    with torch.no_grad():
        together = model(source, source_mask, target, target_mask).split(target_mask.sum(1).tolist())
        for row, expected in enumerate(together):
            s, t = int(source_mask[row].sum()), int(target_mask[row].sum())
            alone = model(
                source[row : row + 1, :s],
                source_mask[row : row + 1, :s],
                target[row : row + 1, :t],
                target_mask[row : row + 1, :t],
            )
            torch.testing.assert_close(alone, expected, rtol=1e-9, atol=1e-10)
        assert model.encode(source, source_mask)["states"][~source_mask].abs().max() == 0.0


@pytest.mark.parametrize("feed", list(Feed))
@pytest.mark.parametrize("query", list(StateIndex))
def test_a_piece_never_changes_weights_that_were_asked_for_before_it(feed: Feed, query: StateIndex) -> None:
    """y_t is read to make s_{t+1}: with the state before as query α_{t+1} does not know it yet."""
    if feed is Feed.context_in_gates and query is StateIndex.current:
        pytest.skip("a circle")
    model = make(feed=feed, query=query)
    source, source_mask, target, _ = batch()
    other = target.clone()
    other[:, 2] = (other[:, 2] + 1) % TARGET
    before = model.cross_attention(source, source_mask, target)
    after = model.cross_attention(source, source_mask, other)
    # Row 2 belongs to the position that reads piece 2.
    rows = 3 if query is StateIndex.previous else 2
    assert torch.equal(before[..., :rows, :], after[..., :rows, :])
    assert (before[:2, ..., rows, :] - after[:2, ..., rows, :]).abs().max() > 1e-6


def test_weights_are_a_distribution_over_the_real_source() -> None:
    source, source_mask, target, _ = batch()
    weights = make(ScoreKind.general).cross_attention(source, source_mask, target)
    assert weights.shape == (3, 1, 1, 5, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert weights.masked_select(~source_mask[:, None, None, None, :]).abs().max() == 0.0


@pytest.mark.parametrize("feed", [Feed.none, Feed.input_feeding])
def test_a_monotonic_window_stands_where_the_target_stands(feed: Feed) -> None:
    """Also where the source is read from its end: its positions are counted from its beginning."""
    model = make(ScoreKind.dot, "local_m", window=1, feed=feed, bidirectional=False, reverse_source=True)
    source, source_mask, target, _ = batch()
    weights = model.cross_attention(source, source_mask, target)[0, 0, 0]
    far = (torch.arange(6)[None] - torch.arange(5)[:, None]).abs() > 1
    assert weights[far].abs().max() == 0.0
    assert weights[~far].min() > 0.0


def test_no_attention_knows_the_source_by_its_last_state_alone() -> None:
    """Sutskever et al. 2014: only the first state; Cho et al. 2014: one context for all steps as well."""
    source, source_mask, target, target_mask = batch()
    for variant, fixed in (({"feed": Feed.none}, False), (BAHDANAU, True)):
        model = make(ScoreKind.none, **variant)
        memory = model.init_state(model.encode(source, source_mask), source_mask)["memory"]
        assert memory.keys is None and (memory.context is not None) == fixed
        assert model.cross_attention(source, source_mask, target).abs().max() == 0.0
        model.logits(model(source, source_mask, target, target_mask)).sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name


def test_every_weight_has_a_gradient_and_the_source_matters() -> None:
    source, source_mask, target, target_mask = batch()
    for variant in VARIANTS[::5]:
        model = make(layers=2, **variant)
        hidden = model(source, source_mask, target, target_mask)
        model.logits(hidden).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        other = (source + 1) % 19 * source_mask
        assert not torch.allclose(hidden, model(other, source_mask, target, target_mask))


def test_dropout_acts_in_training_alone_and_on_each_of_its_places() -> None:
    source, source_mask, target, target_mask = batch()
    for place in ("embedding_dropout", "readout_dropout", "encoder.dropout", "decoder.dropout"):
        model = make(layers=2, model={"dropout": 0.5})
        for name, module in model.named_modules():
            if name.endswith("dropout"):
                module.probability = 0.5 if name == place else 0.0
        first, second = (model(source, source_mask, target, target_mask) for _ in range(2))
        assert not torch.equal(first, second), place
        model.eval()
        first, second = (model(source, source_mask, target, target_mask) for _ in range(2))
        assert torch.equal(first, second)
    model = make(model={"attention_dropout": 0.5})
    first, second = (model(source, source_mask, target, target_mask) for _ in range(2))
    assert not torch.equal(first, second)


def test_tied_embeddings_are_one_matrix() -> None:
    sizes = {"embedding_width": 6, "readout_width": 6}
    for tie, count in ((TieEmbeddings.none, 3), (TieEmbeddings.decoder, 2)):
        model = make(model={"tie_embeddings": tie}, **sizes)
        matrices = {id(m.weight) for m in (model.source_embedding, model.target_embedding, model.output)}
        assert len(matrices) == count
    config = ModelConfig(kind=ModelKind.rnn, tie_embeddings=TieEmbeddings.all, width=6)
    model = Rnn(config, AttentionConfig(score=ScoreKind.general), 20, 20)
    assert model.source_embedding is model.target_embedding
    assert model.output_weight is model.source_embedding.weight


def test_lstm_is_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = Lstm(3, 4).double(), torch.nn.LSTM(3, 4).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input.weight)
        theirs.weight_hh_l0.copy_(ours.recurrent.weight)
        theirs.bias_ih_l0.copy_(ours.input.bias.normal_())  # type: ignore[union-attr]
        theirs.bias_hh_l0.zero_()
    x, h, c = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 2, 3), (2, 4), (2, 4)))
    out, states = ours.run(x, (h, c))
    expected, (_, memory) = theirs(x, (h[None], c[None]))
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(states[-1][1], memory[0])


def test_gru_applies_the_reset_gate_before_the_product() -> None:
    """With the reset gate shut the candidate does not see the state at all; torch's GRU sees b_hn still."""
    cell = Gru(3, 4).double()
    with torch.no_grad():
        cell.input.bias[4:8] = -1e3  # type: ignore[index]
        cell.input.bias[:4] = 1e3  # type: ignore[index]
    x = torch.randn(1, 2, 3, dtype=torch.float64)
    one, _ = cell.run(x, (torch.randn(2, 4, dtype=torch.float64),))
    other, _ = cell.run(x, (torch.randn(2, 4, dtype=torch.float64),))
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one[0], cell.input_gates(x)[0, :, 8:].tanh())


@pytest.mark.parametrize("how", [how for how in Initialization if how is not Initialization.lexical])
def test_initialisation_is_the_papers(how: Initialization) -> None:
    torch.manual_seed(0)
    config = ModelConfig(kind=ModelKind.rnn, width=64, initialization=how)
    config.rnn.cell = Cell.gru if how is Initialization.bahdanau2015 else Cell.lstm
    config.tie_embeddings = TieEmbeddings.none
    model = Rnn(config, AttentionConfig(score=ScoreKind.additive), 200, 200)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if how is Initialization.luong2015:
        for name, weight in weights.items():
            assert float(weight.min()) >= -0.1 and float(weight.max()) <= 0.1, name
        assert float(weights["output.weight"].std()) == pytest.approx(0.2 / 12**0.5, rel=0.05)
        return
    for cell in (module for module in model.modules() if isinstance(module, Gru | Lstm)):
        for matrix in cell.recurrent_matrices():
            torch.testing.assert_close(matrix @ matrix.t(), torch.eye(64), atol=1e-5, rtol=0)
        bias = cell.input.bias
        assert bias is not None
        if how is Initialization.random:
            assert bias.view(4, 64).sum(1).tolist() == [0.0, 64.0, 0.0, 0.0]
            # What the first layers get of an embedding is as wide as what later ones get of N(0, 1).
            first = cell in (*model.encoder.layers[0], model.decoder.layers[0])
            xavier = (2 / (cell.inputs + 64)) ** 0.5
            assert float(cell.input.weight.std()) == pytest.approx(xavier * (8 if first else 1), rel=0.05)
        else:
            assert bias.abs().max() == 0.0
    if how is Initialization.bahdanau2015:
        assert float(weights["decoder.score.vector"].abs().max()) == 0.0
        for name in ("decoder.score.query_matrix.weight", "decoder.score.key_matrix.weight"):
            assert float(weights[name].std()) == pytest.approx(0.001, rel=0.05)
        for name in ("output.weight", "source_embedding.weight", "decoder.start.weight"):
            assert float(weights[name].std()) == pytest.approx(0.01, rel=0.05)


# --- the papers' sizes ---


def papers_model(training: Composition, experiment: str, vocabulary: int) -> int:
    """Parameters of an experiment's model with two vocabularies of a size."""
    checked = training.check(training.read([f"experiment={experiment}"], multirun=False), relations=False)
    assert checked.config is not None
    config: TrainConfig = checked.config
    with torch.device("meta"):
        return parameter_count(build_model(config.model, config.attention, vocabulary, vocabulary))


@pytest.fixture(scope="module")
def training() -> Any:
    with open_hydra(TrainConfig, "train") as composition:
        yield composition


def test_bahdanau2015_has_the_parameters_of_the_papers_formula(training: Composition) -> None:
    """App. A with n = 1000, m = 620, n' = 1000, l = 500, and biases, left out there for readability."""
    n, m, a, out, v = 1000, 620, 1000, 500, 30000
    encoder = 2 * 3 * (n * m + n * n + n)
    decoder = 3 * (n * m + n * n + n * 2 * n + n)
    start = n * n + n
    alignment = a * n + a * 2 * n + a
    readout = 2 * out * (n + m + 2 * n + 1)
    assert papers_model(training, "bahdanau2015", v) == (
        2 * v * m + encoder + decoder + start + alignment + readout + v * out
    )


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("global_dot", lambda n, s: 0),
        ("global_general", lambda n, s: n * n),
        ("global_location", lambda n, s: s * n),
        ("local_p_general", lambda n, s: n * n + n * n + n),
    ],
)
def test_luong2015_has_the_parameters_of_the_papers_formula(
    training: Composition, name: str, score: Any
) -> None:
    """Four LSTM layers of 1000 a side; the lowest of the decoder also reads the fed readout."""
    n, v, layers, positions = 1000, 50000, 4, 512
    side = layers * 4 * (n * n + n * n + n)
    feeding, readout = 4 * n * n, 2 * n * n
    expected = 2 * v * n + 2 * side + feeding + readout + v * n + score(n, positions)
    assert papers_model(training, f"luong2015_{name}", v) == expected


@pytest.mark.parametrize(("name", "d", "f", "millions"), [("base", 512, 2048, 65), ("big", 1024, 4096, 213)])
def test_vaswani2017_has_the_parameters_of_the_papers_formula(
    training: Composition, name: str, d: int, f: int, millions: int
) -> None:
    attention = 4 * (d * d + d)
    feed_forward = 2 * d * f + f + d
    encoder = 6 * (attention + feed_forward + 2 * 2 * d)
    decoder = 6 * (2 * attention + feed_forward + 3 * 2 * d)
    got = papers_model(training, f"vaswani2017_{name}", 37000)
    assert got == 37000 * d + encoder + decoder
    assert got == pytest.approx(millions * 1e6, rel=0.05)  # table 3


@pytest.mark.parametrize(("name", "score"), [("add512", 512 * 512 * 3 + 512), ("mul512", 1024 * 512)])
def test_britz2017_has_the_parameters_of_the_models_formula(
    training: Composition, name: str, score: int
) -> None:
    n, v = 512, 32000
    cell = lambda inputs: 3 * (n * inputs + n * n + n)  # noqa: E731
    start = 2 * (n * n + n)
    readout = n * (n + 2 * n)
    expected = 2 * v * n + 2 * cell(n) + cell(n) + 3 * n * n + cell(n) + start + readout + v * n + score
    assert papers_model(training, f"britz2017_{name}", v) == expected


def test_all_matrices_are_linear_layers_that_precision_and_muon_reach() -> None:
    model = make(layers=2, **BAHDANAU)
    known = {id(module.weight) for module in model.modules() if isinstance(module, Linear)}
    for name, parameter in model.named_parameters():
        special = ("embedding.weight" in name and "readout" not in name) or "score" in name
        if parameter.ndim == 2 and not special:
            assert id(parameter) in known, name
