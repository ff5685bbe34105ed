"""The report: everything that a story tells is on the page, safe, alone, and the same each time; and in files."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from claim_feeds import Returns

from browsing import browser
from reproduction.experiments.continuous import CONTINUOUS
from reproduction.experiments.network_training import END_TO_END
from reproduction.paper import Runs, Scale
from reproduction.report.model import (
    Claim,
    ClaimVerdict,
    Curve,
    CurveFigure,
    CurvePanel,
    Interval,
    IntervalFigure,
    Panel,
    PanelFigure,
    Section,
    Story,
    Strip,
)
from reproduction.report.page import render
from reproduction.report.report import number_of_files, written_files
from reproduction.stored_results import LEAGUE_FILE, stored_cells
from zscout.base.markup import plain, to_html
from zscout.lab.compare.comparison import ranking_table
from zscout.lab.compare.tables import TextTable, to_csv, to_markdown
from zscout.lab.runs.store import Store
from zscout.watch.ink import INK

HOSTILE = "<script>alert('&')</script>\"><img src=x>"


class Page(HTMLParser):
    """What is on a page, as far as these tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def _claim(number: str, verdict: ClaimVerdict) -> Claim:
    return Claim(number, f"says {number}", f"where {number}", f"measured {number}", verdict, f"rule {number}")


@pytest.fixture(scope="module")
def story() -> Story:
    path = np.array([[0, 0], [0, 1], [1, 1]])
    panel = Panel("quiz", np.arange(6.0).reshape(2, 3), path)
    panels = PanelFigure("maps", "Maps, **caption**.", {"A part": [Strip("row", "reward", [panel] * 2)]}, "Two maps.")
    # The caption has letters that the picture has only after it: they have to stay when the caption goes.
    curve = Curve("bjqvw", [0, 1], [1, 2], [0, 1], [2, 3])
    lines = CurveFigure("lines", "bjqvw: `lines`.", {"row": [CurvePanel("y", [curve, replace(curve, label="k")])]})
    dots = IntervalFigure("dots", "Dots.", "x", {"left": [Interval("us", 1.0, 0.0, 2.0, ours=True)]}, "One dot.")
    table = TextTable(
        "numbers", "Cells.", ["name", "a | b"], [["x, y", "1 | 2"], ["`c`", "**3**\nlines"]], note="What `c` is."
    )
    return Story(
        title="A title",
        summary=["In short: [see one](#one)."],
        sections=[
            Section("one", "First", ["Text one."], [panels], [table], [_claim("1a", "holds")], "zscout one --seed 0"),
            Section("two", "Second", ["Text two."], [lines, dots], claims=[_claim("2a", "does not hold")]),
            Section("three", "Third", ["Text three."], claims=[_claim("3a", "holds in part"), _claim("3b", "holds")]),
        ],
        deviations=["Deviates here.", "And there."],
        slips=["A slip."],
        about={"version": "1.2.3"},
    )


@pytest.fixture(scope="module")
def folder(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    written = list(written_files(story, folder))
    assert sorted(written) == sorted(path for path in folder.rglob("*") if path.is_file())
    assert len(written) == number_of_files(story)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text("utf-8")


def test_the_page_tells_the_whole_story(page: str, story: Story) -> None:
    text = Page(page).text
    for claim in story.claims:
        for said in (claim.says, claim.where, claim.measured):
            assert text.count(said) == 2, said  # among all claims, and in its section
        assert text.count(claim.rule) == 1
    for section in story.sections:
        assert text.count(section.title) == 2  # in the contents, too
        assert section.text[0] in text
    for said in (
        "A title",
        "In short: see one.",
        "Deviates here.",
        "And there.",
        "A slip.",
        "version",
        "1.2.3",
        "Cells.",
    ):
        assert said in text
    assert "Run it again: zscout one --seed 0" in text
    assert [text.index(f"Figure {number}.") for number in range(1, 5)] == sorted(
        text.index(f"Figure {number}.") for number in range(1, 5)
    )
    assert text.index("measured 3b") < text.index("Text one.") < text.index("Text two.") < text.index("Deviates here.")


def test_verdicts_are_words_and_are_counted(page: str) -> None:
    text = Page(page).text
    tally = text[text.index("4 claims, measured") : text.index("Contents")]
    assert re.findall(r"(\d) (\S) (holds in part|holds|does not hold)", tally)[:3] == [
        ("2", "✓", "holds"),
        ("1", "◐", "holds in part"),
        ("1", "✗", "does not hold"),
    ]
    assert [attributes["href"] for attributes in Page(page).all("a") if attributes["href"] == "#two"] == ["#two"] * 2


def test_checks_and_additions_are_counted_apart_and_every_claim_is_a_link_away(story: Story, tmp_path: Path) -> None:
    ours = replace(_claim("3c", "holds"), kind="ours")
    few = replace(_claim("3d", "too few runs to tell"), kind="claim")
    third = replace(story.sections[2], claims=[*story.sections[2].claims, ours, few])
    whole = replace(story, sections=[*story.sections[:2], third], opening=("dots",))
    list(written_files(whole, tmp_path))
    page = (tmp_path / "report.html").read_text("utf-8")
    text = Page(page).text
    assert "5 claims, measured" in text
    assert "1 ? too few runs to tell" in text
    assert "Counted separately: 3c holds (our addition)." in text
    assert "Our addition 3c" in text
    links = [attributes["href"] for attributes in Page(page).all("a")]
    for claim in whole.claims:
        assert f"#claim-{claim.number}" in links
    assert page.index('id="figure-dots"') < page.index('id="claims"') < page.index('id="figure-maps"')
    assert "at the top of the page" in text
    assert page.index("<details>") < page.index('<table class="claims"') < page.index("</details>")


def test_the_page_asks_for_nothing_from_anywhere(page: str) -> None:
    seen = Page(page)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", page.replace("base64,//", "base64,"))
    assert not {"script", "link", "iframe", "object", "embed", "base", "form", "img"} & {tag for tag, _ in seen.tags}
    for _, attributes in seen.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "action", "data", "srcset"):
                assert value is not None
                assert value.startswith(("#", "data:image/png;base64,"))
    (policy,) = [a["content"] for a in seen.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_ids_are_there_once_and_every_pointer_has_its_target(page: str) -> None:
    tags = Page(page).tags
    ids = Counter(attributes["id"] for _, attributes in tags if "id" in attributes)
    assert max(ids.values()) == 1
    links = {(value or "")[1:] for _, a in tags for value in (a.get("href"),) if (value or "").startswith("#")}
    clips = set(re.findall(r"url\(#([^)]+)\)", page))
    assert clips
    assert links | clips <= set(ids)
    assert {"one", "two", "three", "claims", "claim-3a", "deviation-2", "slip-1", "about"} <= set(ids)


def test_every_picture_says_what_it_shows_and_follows_the_light_of_the_page(page: str, folder: Path) -> None:
    pictures = Page(page).all("svg")
    said = ["offline transfer", "Two maps.", "Two maps.", "bjqvw: lines.", "One dot."]  # without alt it is the caption
    for attributes, words in zip(pictures, said, strict=True):
        assert attributes["role"] == "img"
        assert words in (attributes["aria-label"] or "")
        assert "width" not in attributes  # the page decides, up to --width
        assert "--width" in (attributes["style"] or "")
    assert "currentColor" in page
    assert INK not in page.split("</style>")[1]
    assert INK in (folder / "figures" / "lines.svg").read_text("utf-8")


def test_pictures_on_the_page_end_above_their_captions(page: str, folder: Path) -> None:
    saved = (folder / "figures" / "lines.svg").read_text("utf-8")
    assert 'id="caption"' in saved
    assert 'id="background"' in saved
    assert "lines--caption" not in page
    (shown,) = [a["viewbox"] for a in Page(page).all("svg") if "bjqvw" in (a["aria-label"] or "")]
    (whole,) = re.findall(r'viewBox="([^"]+)"', saved)
    assert float((shown or "").split()[3]) < float(whole.split()[3]) - 15
    assert float((shown or "").split()[2]) == float(whole.split()[2])


def test_rewards_are_there_in_both_palettes_and_a_switch_chooses(page: str, folder: Path) -> None:
    classes = Counter(attributes.get("class") for attributes in Page(page).all("div"))
    assert (classes["safe"], classes["paper"]) == (1, 1)
    switches = {a["id"]: "checked" in a for a in Page(page).all("input")}
    assert switches == {"palette-safe": True, "palette-paper": False}
    assert "body:has(#palette-paper:checked) .paper" in page
    names = {path.name for path in (folder / "figures").iterdir()}
    stems = ("framework", "maps", "maps-paper", "lines", "dots")
    assert names == {f"{stem}.{suffix}" for stem in stems for suffix in ("svg", "png")}
    assert (folder / "figures" / "maps.png").read_bytes() != (folder / "figures" / "maps-paper.png").read_bytes()


def test_the_same_story_gives_the_same_bytes(story: Story, folder: Path, tmp_path: Path) -> None:
    for path in written_files(story, tmp_path):
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes(), path.name


def test_hostile_text_is_text() -> None:
    verdict: ClaimVerdict = "holds"
    lines = CurveFigure(
        "f", HOSTILE, {HOSTILE: [CurvePanel(HOSTILE, [Curve(HOSTILE, [1], [1])], title=HOSTILE)]}, HOSTILE
    )
    section = Section(
        "s", HOSTILE, [HOSTILE], [lines], [TextTable("t", HOSTILE, [HOSTILE], [[HOSTILE]])],
        [Claim("1a", HOSTILE, HOSTILE, HOSTILE, verdict, HOSTILE)], HOSTILE,
    )  # fmt: skip
    story = Story(HOSTILE, [HOSTILE], [section], [HOSTILE], [HOSTILE], {HOSTILE: HOSTILE})
    pictures: Mapping[str, dict[str, str]] = {"f": {"safe": "<svg></svg>"}}
    page = render(story, pictures)  # type: ignore[arg-type]
    seen = Page(page)
    assert not seen.all("script")
    assert not seen.all("img")
    # Titles 2, summary, contents; among all claims 3; section: heading, text, captions 2, cells 2, claim 4, command;
    # deviation, slip, about 2.
    assert seen.text.count(" ".join(HOSTILE.split())) == 22
    assert all("alert" not in (value or "") for _, attributes in seen.tags for value in attributes.values())


def test_hostile_words_stay_words_in_pictures(tmp_path: Path) -> None:
    lines = CurveFigure(
        "f", f"{HOSTILE} $x_1", {"$a$b": [CurvePanel("y", [Curve("a", [1], [1])], title="$ & <b>")]}, HOSTILE
    )
    list(written_files(Story("t", [], [Section("s", "S", [], [lines])], [], [], {}), tmp_path))
    seen = Page((tmp_path / "report.html").read_text("utf-8"))
    assert seen.all("svg")[1]["aria-label"] == HOSTILE
    assert not seen.all("script")
    assert not seen.all("section")[0].get("class")


def test_tables_are_whole_and_claims_side_by_side_on_a_small_screen() -> None:
    """The stored tables are the widest; on a phone the page is no wider than the screen."""
    measured = CONTINUOUS.tell(Scale(), Runs(cast(Store, Returns(1.0)))).tables
    tables = [*END_TO_END.tell(Scale(), Runs(cast(Store, None))).tables, *measured]
    tables += [ranking_table(cell.name, cell.title, cell.rows) for cell in stored_cells(LEAGUE_FILE)]
    claims = [_claim(f"1{letter}", "holds") for letter in "ab"]
    page = render(Story("t", [], [Section("s", "S", [], (), tables, claims)], [], [], {}), {})
    with browser() as running:
        opened = running.new_page(viewport={"width": 1280, "height": 800})
        opened.set_content(page)
        widths = opened.locator(".table .scroll").evaluate_all("all => all.map(e => [e.scrollWidth, e.clientWidth])")
        assert len(widths) == len(tables)
        assert [table.name for table, (whole, seen) in zip(tables, widths, strict=True) if whole > seen] == []
        top = "all => new Set(all.map(e => e.getBoundingClientRect().top)).size"
        assert opened.locator(".claim").evaluate_all(top) == 1
        opened.set_viewport_size({"width": 390, "height": 800})
        assert opened.locator(".claim").evaluate_all(top) == 2
        assert opened.evaluate("document.documentElement.scrollWidth") == 390


def test_names_are_for_one_thing(story: Story, tmp_path: Path) -> None:
    first = story.sections[0]
    for twice, message in (
        ([first, replace(first, key="other", tables=(), claims=())], "figure 'maps'"),
        ([replace(first, key="claims")], "section 'claims'"),
        ([first, replace(first, key="other", figures=(), tables=())], "claim '1a'"),
        ([replace(first, tables=[replace(first.tables[0], name="claims")])], "table 'claims'"),
    ):
        with pytest.raises(ValueError, match=message):
            list(written_files(replace(story, sections=twice), tmp_path))
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match="no picture of maps"):
        render(story, {})


def test_the_framework_is_in_the_section_of_that_name(story: Story) -> None:
    pictures: Mapping[str, dict[str, str]] = {"framework": {"safe": "<svg></svg>"}}
    bare = replace(story, sections=[Section("one", "One", ["First."]), Section("framework", "Two", ["Second."])])
    at_home = Page(render(bare, pictures)).text  # type: ignore[arg-type]
    assert at_home.index("Second.") < at_home.index("Figure 1.")
    elsewhere = Page(render(replace(bare, sections=bare.sections[:1]), pictures)).text  # type: ignore[arg-type]
    assert elsewhere.index("Figure 1.") < elsewhere.index("First.")


def test_tables_as_csv_and_markdown(story: Story, folder: Path) -> None:
    (table,) = story.sections[0].tables
    saved = (folder / "tables" / "numbers.csv").read_text("utf-8")
    assert saved == to_csv(table)
    assert [*csv.reader(io.StringIO(saved))] == [["name", "a | b"], ["x, y", "1 | 2"], ["c", "3\nlines"]]
    assert (folder / "tables" / "numbers.md").read_text("utf-8") == to_markdown(table)
    assert to_markdown(table).splitlines() == [
        "Cells.",
        "",
        "| name | a \\| b |",
        "|---|---|",
        "| x, y | 1 \\| 2 |",
        "| `c` | **3**<br>lines |",
        "",
        "What `c` is.",
    ]
    assert "What <code>c</code> is." in (folder / "report.html").read_text("utf-8")
    assert "a\\\\\\|b" in to_markdown(TextTable("t", "c", ["h"], [["a\\|b"]]))  # three: one stays, one escapes it
    claims = [*csv.reader(io.StringIO((folder / "tables" / "claims.csv").read_text("utf-8")))]
    assert claims[0] == ["number", "claim", "where", "measured", "verdict", "rule"]
    assert claims[1] == ["1a", "says 1a", "where 1a", "measured 1a", "holds", "rule 1a"]
    assert len(claims) == 5


@pytest.mark.parametrize(
    ("text", "html", "words"),
    [
        ("**a** & `<b>`", "<strong>a</strong> &amp; <code>&lt;b&gt;</code>", "a & <b>"),
        ("[to](#it-1)", '<a href="#it-1">to</a>', "to"),
        ("`**x** [a](#b)`", "<code>**x** [a](#b)</code>", "**x** [a](#b)"),
        ("[a](https://b)", "[a](https://b)", "[a](https://b)"),
        ('[a](#b" onclick="c)', "[a](#b&quot; onclick=&quot;c)", '[a](#b" onclick="c)'),
        ("z_r, φ·Z_t, z\u0302_t", "z<sub>r</sub>, φ·Z<sub>t</sub>, z\u0302<sub>t</sub>", "z_r, φ·Z_t, z\u0302_t"),
        ("ẑ_t [z_r](#z_r) `z_r`", 'ẑ<sub>t</sub> <a href="#z_r">z<sub>r</sub></a> <code>z_r</code>', "ẑ_t z_r z_r"),
        ("2dφ_max", "2dφ<sub>max</sub>", "2dφ_max"),
        ("γ^{t+k} `γ^{k}`", "γ<sup>t+k</sup> <code>γ^{k}</code>", "γ^{t+k} γ^{k}"),
        ("1.3e-16, 2e+03, 3e05", "1.3·10<sup>−16</sup>, 2·10<sup>3</sup>, 3e05", "1.3e-16, 2e+03, 3e05"),
        ("-1.8 (-.5…-2) `-1`", "−1.8 (−.5…−2) <code>-1</code>", "-1.8 (-.5…-2) -1"),
        (
            "2026-11, 9-3, [a-1](#b-1) --quick",
            '2026-11, 9-3, <a href="#b-1">a-1</a> --quick',
            "2026-11, 9-3, a-1 --quick",
        ),
        ("max_r x_long __init__ a_", "max_r x_long __init__ a_", "max_r x_long __init__ a_"),
        (
            "**b** [**c**](#d) [e](#f)",
            '<strong>b</strong> <a href="#d"><strong>c</strong></a> <a href="#f">e</a>',
            "b c e",
        ),
        ("2 ** 3, a * b, `open", "2 ** 3, a * b, `open", "2 ** 3, a * b, `open"),
    ],
)
def test_markup(text: str, html: str, words: str) -> None:
    assert to_html(text) == html
    assert plain(text) == words
