"""One checkpoint of each kind of inference model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.inference.tiny_classifiers import save_deberta, save_roberta, save_t5


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory) -> dict[str, Path]:
    """Return the folder of each checkpoint.

    The folders are named as on the Hub, because a model's family depends on its name.
    """
    root = tmp_path_factory.mktemp("support")
    nli_labels = ("contradiction", "entailment", "neutral")
    return {
        "roberta": save_roberta(root / "MiniCheck-RoBERTa-Large"),
        "deberta": save_deberta(root / "MiniCheck-DeBERTa-v3-Large"),
        "nli": save_deberta(root / "nli-deberta-v3-base", nli_labels),
        "single label": save_roberta(root / "cross-encoder", num_labels=1),
        "seq2seq": save_t5(root / "MiniCheck-Flan-T5-Large"),
    }
