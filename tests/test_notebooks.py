"""The notebooks run from top to bottom, show what their text says, and are stored without outputs."""

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == kind]


def ran(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables after the last cell."""
    monkeypatch.setattr(matplotlib.pyplot, "show", matplotlib.pyplot.close)
    variables: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(EXAMPLES / f"{name}.ipynb", "code")):
        exec(compile("".join(cell["source"]), f"{name}, code cell {number}", "exec"), variables)
    return variables


@pytest.fixture(autouse=True)
def no_window() -> None:
    import matplotlib.pyplot

    matplotlib.pyplot.switch_backend("Agg")


def test_there_are_three_without_outputs() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["teach-a-body", "the-paper-in-ten-minutes", "your-own-model"]
    for notebook in NOTEBOOKS:
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(notebook, "code"))
        assert notebook.stat().st_size < 20_000


@pytest.mark.long
def test_the_paper_in_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = ran("the-paper-in-ten-minutes", monkeypatch)["curves"]
    last = {method: float(rows[-20:].mean()) for method, rows in curves.items()}
    assert last["usf-ucb"] > 0.85
    assert last["usf-ucb"] > last["greedy"] > last["random"]
    assert abs(last["random"]) < 0.2


@pytest.mark.long
def test_your_own_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = ran("your-own-model", monkeypatch)
    assert float(found["agent"].best_z @ found["model"].project_z(found["wanted"])) > 0.9
    assert "ψ counts the current state" in capsys.readouterr().out


@pytest.mark.long
def test_teach_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran("teach-a-body", monkeypatch)
    assert sum(found["kept"]) / len(found["kept"]) < -0.3  # it goes backwards
