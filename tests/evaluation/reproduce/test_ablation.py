"""Without a law the matching test fails, and no other."""

import pytest

from bitr.evaluation.reproduce.toy import difference
from tests.evaluation.reproduce.cases import plan, result

BROKEN = {"BITR": set(), "BITR without swap": {"swapped"}, "BITR without scale": {"scaled"}}


@pytest.fixture(scope="module")
def ablated(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BITR_DATA", raising=False)
        out = tmp_path_factory.mktemp("ablation")
        return out, result("ablation", plan(out, samplings=1))


@pytest.mark.parametrize("variant", BROKEN)
def test_a_missing_law_breaks_its_own_test_and_no_other(ablated, variant):
    rows = {row.name: row for row in ablated[1].tables[0].rows}
    original = rows[f"{variant}, original"]
    for test in ("swapped", "scaled", "moved"):
        off = difference(original, rows[f"{variant}, {test}"])
        assert off > 0.1 if test in BROKEN[variant] else off < 1e-3, test


def test_the_papers_figures_stand_beside_ours(ablated):
    printed = {row.name: row.published.rotation for row in ablated[1].tables[0].rows}
    assert len(printed) == 12
    assert printed["BITR without swap, swapped"] == "70.3 (20.0)"
    assert printed["BITR without scale, scaled"] == "125.4 (15.0)"
    assert printed["BITR without scale, swapped"] == "15.0 (8.0)"


def test_given_weights_stand_for_their_own_variant_alone(ablated, tmp_path):
    given = ablated[0] / "runs" / "bunny-stand-in-without-swap-full"
    rows = result("ablation", plan(tmp_path, model=str(given), limit=1, samplings=1)).tables[0].rows
    measured = {row.name.partition(",")[0] for row in rows if row.samplings}
    assert measured == {"BITR without swap"}
    assert all("nothing is, and" in row.made for row in rows if not row.samplings)
