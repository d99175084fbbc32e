"""The schema in Hydra's ConfigStore, so that every YAML file is checked against it when composed.

Contract: `register` may be called any number of times. The roots in ``conf/`` name these entries
first in their defaults lists.
"""

from __future__ import annotations

from typing import Any

from hydra.core.config_store import ConfigStore

from mt.config.schema import CompareConfig, EvaluateConfig, TrainConfig, TranslateConfig

SCHEMAS: dict[str, type[Any]] = {
    "train_schema": TrainConfig,
    "translate_schema": TranslateConfig,
    "evaluate_schema": EvaluateConfig,
    "compare_schema": CompareConfig,
}


def register() -> None:
    """Store every root's schema under the name its YAML file asks for."""
    store = ConfigStore.instance()
    for name, schema in SCHEMAS.items():
        if f"{name}.yaml" not in store.repo:
            store.store(name=name, node=schema, provider="mt")
