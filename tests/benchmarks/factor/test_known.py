"""What is known of the published files, as a page of the documentation shows it."""

import yaml

from bench.real.known import TARGET, to_table
from bench.real.model import NAME
from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL
from factor_gen.audit.read import read_benchmark
from tests.conftest import REPOSITORY

KNOWN = yaml.safe_load(TARGET.read_text(encoding="utf-8"))


def test_the_most_central_choice_is_as_the_audit_has_it(shared, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))
    audit = audit_rows(read_benchmark("expert_factor").rows)
    assert (
        round(100 * audit.baseline(CENTRAL).rows_won.value, 1)
        == KNOWN["expert_factor"]["published"]["central"]
    )


def test_the_page_has_the_same_table():
    assert to_table(KNOWN, NAME) in (REPOSITORY / "docs" / "known.md").read_text(encoding="utf-8")
