"""Alignment error rate: values computed by hand, and what the layers' numbers are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mt.evaluation.alignment_error import alignment_error
from mt.evaluation.attention_numbers import attention_numbers


def test_the_value_of_an_example_computed_by_hand() -> None:
    # |A| = 3, |S| = 2, |A∩S| = 1, |A∩P| = 2.
    found = alignment_error([[(0, 0), (1, 1), (2, 2)]], [{(0, 0), (1, 2)}], [{(0, 0), (1, 2), (1, 1)}])
    assert found.aer == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert (found.precision, found.recall, found.links) == (pytest.approx(2 / 3), 0.5, 3)


def test_agreement_is_zero_also_without_the_possible_links() -> None:
    sure, possible = [{(0, 0)}, {(1, 0)}], [{(0, 0), (1, 1)}, {(1, 0)}]
    assert alignment_error([[(0, 0)], [(1, 0)]], sure, possible).aer == 0.0
    assert alignment_error([[(0, 0), (1, 1)], [(1, 0)]], sure, possible).aer == 0.0
    assert alignment_error([[(5, 5)], []], sure, possible).aer == 1.0


def test_links_count_over_the_corpus_not_by_segment() -> None:
    sure = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}]
    found = alignment_error([[(0, 0)], [(0, 0), (1, 1), (2, 1)]], sure, sure)
    assert found.aer == pytest.approx(1 - (3 + 3) / (4 + 4))


def test_nothing_found_is_wrong_and_no_gold_is_no_error_rate() -> None:
    nothing = alignment_error([[]], [{(0, 0)}], [{(0, 0)}])
    assert (nothing.aer, nothing.precision, nothing.recall) == (1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="no sure link"):
        alignment_error([[(0, 0)]], [set()], [{(0, 0)}])
    with pytest.raises(ValueError):
        alignment_error([[(0, 0)]], [{(0, 0)}, set()], [{(0, 0)}])


def test_each_layer_has_its_own_error() -> None:
    def layer(links: list[tuple[int, int]]) -> SimpleNamespace:
        return SimpleNamespace(entropy=1.0, entropy_share=0.5, end=0.25, links=[links])

    found = SimpleNamespace(model=layer([(0, 0)]), layers=[layer([(1, 1)]), layer([(0, 0)])], cut=2)
    gold = SimpleNamespace(sure=[{(0, 0)}], possible=[{(0, 0)}])
    numbers = attention_numbers(found, gold)
    assert numbers.aer == 0.0
    assert [one.alignment.aer for one in numbers.layers if one.alignment] == [1.0, 0.0]
    record = numbers.to_json()
    assert record["alignment"]["aer"] == 0.0 and record["cut"] == 2 and record["entropy"] == 1.0
    assert [(one["layer"], one["alignment"]["aer"]) for one in record["layers"]] == [(1, 1.0), (2, 0.0)]
    without = attention_numbers(found, None)
    assert without.aer is None and without.to_json()["alignment"] is None
