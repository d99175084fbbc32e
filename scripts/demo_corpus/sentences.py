"""The kinds of sentence with their weights.

Every kind is a function that takes a `Writer` and returns a `Pair`, or raises `Reject` where the draw led
nowhere."""

from __future__ import annotations

from collections.abc import Callable

from .comparisons import k_compare
from .grammar import Writer
from .joined import (
    k_because,
    k_contrast,
    k_her,
    k_narrative,
    k_opinion,
    k_pronoun,
    k_purpose,
    k_relative,
    k_when,
    narrative,
)
from .people import Pair
from .questions import k_wh, k_yes_no
from .simple import (
    k_be,
    k_born,
    k_clock,
    k_event,
    k_feeling,
    k_imperative,
    k_impersonal,
    k_location,
    k_modal,
    k_negative,
    k_passive,
    k_place_clitic,
    k_price,
    k_since,
    k_swap,
    k_thanks,
    k_there_is,
    k_this_is,
    k_travel_month,
    k_weather,
)

KINDS: tuple[tuple[float, Callable[[Writer], Pair]], ...] = (
    (30, k_event),
    (5, k_travel_month),
    (8, k_yes_no),
    (11, k_wh),
    (8, k_be),
    (3, k_feeling),
    (7, k_modal),
    (6, k_imperative),
    (6, k_compare),
    (8, k_relative),
    (4, k_there_is),
    (2, k_weather),
    (2, k_clock),
    (3, k_because),
    (5, k_purpose),
    (6, k_when),
    (8, k_narrative),
    (3, k_pronoun),
    (4, k_contrast),
    (3, k_opinion),
    (3, k_impersonal),
    (1.5, k_swap),
    (2.5, k_passive),
    (3.5, k_price),
    (4, k_this_is),
    (3, k_negative),
    (0.8, k_thanks),
    (0.8, k_her),
    (2, k_place_clitic),
    (2.5, k_location),
    (2, k_since),
    (2, k_born),
)


def draw(w: Writer) -> Pair:
    """One sentence of any kind. Raises Reject as the kinds do."""
    return w.weighted(*KINDS)(w)


def draw_long(w: Writer) -> Pair:
    """Several clauses joined, for the long test set."""
    return narrative(w, w.weighted((4, 3), (3, 4), (1, 5)), long=True)
