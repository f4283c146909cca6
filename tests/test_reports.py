"""All reports, whole, from results that are made up.

After you have changed a report, run ``python tests/test_reports.py`` and read what has changed in
``test_reports.toml``.
"""

from pathlib import Path

import made_up
import pytest
from approved import check_approved
from made_up import distinct
from toml_cases import toml_table

from minitransformer.apps import bench
from minitransformer.apps.bench import report as wide_reports
from minitransformer.apps.paper import report

CARD = {
    "flops": 5e9, "matmul": 4e13, "achieved": {"ours": 1e12, "eager": 2e13}, "share": {"ours": 0.025, "eager": 0.5},
}  # fmt: skip


def on_a_card():
    """Return what measuring on a GPU would have found."""
    result = made_up.result(("toy",))
    result["configurations"]["toy"]["card"] = CARD
    ours, eager = (result["configurations"]["toy"]["programs"][name] for name in ("ours", "eager"))
    ours["description"] = {"card": {"name": "a card", "memory": 8e10, "cupy": "14.0", "cuda": "13.2", "driver": "13.0"}}
    eager |= {"description": {"version": "2.13.0", "device": "a card"}, "reserved": 5 * 10**8}
    return result


REPORTS = {
    "speed": lambda: bench.speed_text(distinct(made_up.result(compiled=1.5))),
    "on a card": lambda: bench.speed_text(distinct(on_a_card())),
    "decoding": lambda: bench.decoding_text(distinct(made_up.decoding(theirs=((3, 7, 5), (6, 7, 6))))),
    "decoding without PyTorch": lambda: bench.decoding_text(made_up.decoding(eager=None)),
    "growth": lambda: bench.growth_text(distinct(made_up.growth()) | {"workers": 3}),
    "processes": lambda: bench.processes_text(distinct(made_up.processes())),
    "table 1": lambda: report.table1_text(distinct(made_up.table1() | {"costs": made_up.COSTS})),
    "paths": lambda: report.paths_text(distinct(made_up.table1())),
    "recall": lambda: report.recall_text(distinct(made_up.RECALL)),
    "extrapolation": lambda: report.extrapolation_text(distinct(made_up.EXTRAPOLATION)),
    "heads": lambda: report.heads_text(distinct(made_up.HEADS)),
    "changes": lambda: report.changes_text(distinct(made_up.CHANGES)),
    "changes at the border of p": lambda: report.changes_text(made_up.CHANGES),
    "positions": lambda: report.positions_text(distinct(made_up.POSITIONS)),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_says_what_it_said_when_it_was_read(name):
    assert REPORTS[name]().splitlines() == toml_table(__file__, "REPORTS")[name].splitlines()


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_fits_a_narrow_terminal_as_it_did_when_it_was_read(name, monkeypatch):
    monkeypatch.setattr(wide_reports, "columns", lambda *without_terminal: 60)
    check_approved(Path(__file__).parent / "approved_narrow_reports" / f"{name.replace(' ', '_')}.txt", REPORTS[name]())


if __name__ == "__main__":
    reports = "\n\n".join(f"\"{name}\" = '''\n{report()}'''" for name, report in REPORTS.items())
    Path(__file__).with_suffix(".toml").write_text(f"[REPORTS]\n{reports}\n", encoding="utf-8")
