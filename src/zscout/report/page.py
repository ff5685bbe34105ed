"""The story as one HTML file that asks for nothing from anywhere: no script, no font, no picture outside it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from zscout.lab.report_model import Claim, ClaimVerdict, FigureTable, Kind, Section, Story, TextTable
from zscout.report import draw_framework as framework
from zscout.report.ink import Palette
from zscout.report.markup import plain, to_html

Pictures = Mapping[str, Mapping[Palette, str]]  # inline SVG by the figure's name and the palette

SYMBOLS: dict[ClaimVerdict, str] = {
    "holds": "✓",
    "holds in part": "◐",
    "does not hold": "✗",
    "too few runs to tell": "?",
}
CLASSES: dict[ClaimVerdict, str] = {
    "holds": "yes",
    "holds in part": "part",
    "does not hold": "no",
    "too few runs to tell": "few",
}
KINDS: dict[Kind, str] = {"claim": "Claim", "check": "Check", "ours": "Our addition"}
ALWAYS_COUNTED = ("holds", "holds in part", "does not hold")
PARTS = {"claims": "All claims", "deviations": "Where we deviate", "slips": "Slips in the paper", "about": "About"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
SWITCH = """<fieldset class="switch"><legend>Colours of rewards</legend>
<label><input type="radio" name="palette" id="palette-safe" checked> for every eye</label>
<label><input type="radio" name="palette" id="palette-paper"> red to green, as in the paper</label></fieldset>"""


def render(story: Story, pictures: Pictures) -> str:
    """The whole page; every figure of the story has to be in ``pictures``, the framework may be."""
    check(story)
    if missing := [f.name for section in story.sections for f in section.figures if f.name not in pictures]:
        raise ValueError(f"no picture of {', '.join(missing)}")
    numbered = _Numbers()
    shown_first = _opening(story, pictures, numbered)
    home = next((s.key for s in story.sections if s.key == framework.NAME), "") if framework.NAME in pictures else None
    opening = _framework(pictures, numbered) if home == "" else ""
    sections = [
        _section(
            section, pictures, numbered, _framework(pictures, numbered) if section.key == home else "", story.opening
        )
        for section in story.sections
    ]
    style = files("zscout.report").joinpath("page.css").read_text("utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(plain(story.title))}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#claims">Skip to the claims</a>
<header id="top"><h1>{to_html(story.title)}</h1>
<div class="summary">{_paragraphs(story.summary)}</div>
{_tally(story.claims)}
{_jump(story)}
{shown_first}</header>
<nav aria-label="Contents">{_contents(story)}{SWITCH}</nav>
<main>
{opening}
{_all_claims(story)}
{"".join(sections)}
{_list("deviations", story.deviations, "deviation")}
{_list("slips", story.slips, "slip")}
{_about(story.about)}
</main>
</body>
</html>
"""


class _Numbers:
    """Figure 1, 2, … and Table 1, 2, … in the order in which they are asked for."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def next(self, kind: str) -> str:
        self.seen[kind] += 1
        return f"{kind} {self.seen[kind]}"


def check(story: Story) -> None:
    """Raise where two things of the page have the same name: links and files are by name."""
    names = {
        "section": ["top", *PARTS, *(section.key for section in story.sections)],
        "figure": [framework.NAME, *(figure.name for section in story.sections for figure in section.figures)],
        "table": ["claims", *(table.name for section in story.sections for table in section.tables)],
        "claim": [claim.number for claim in story.claims],
    }
    twice = [f"{kind} {name!r}" for kind, used in names.items() for name, times in Counter(used).items() if times > 1]
    if twice:
        raise ValueError(f"every name is for one thing on the page, these are for more: {', '.join(twice)}")


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{to_html(text)}</p>" for text in texts)


def _badge(verdict: ClaimVerdict) -> str:
    symbol = f'<span aria-hidden="true">{SYMBOLS[verdict]}</span>'
    return f'<span class="badge {CLASSES[verdict]}">{symbol} {verdict}</span>'


def _tally(claims: Sequence[Claim]) -> str:
    """How many claims of the paper hold: a bar, and the same in words; checks and additions of ours apart."""
    if not claims:
        return ""
    papers = [claim for claim in claims if claim.kind == "claim"]
    counts = Counter(claim.verdict for claim in papers)
    bars = "".join(f'<span class="{CLASSES[v]}" style="flex-grow: {counts[v]}"></span>' for v in SYMBOLS if counts[v])
    words = "".join(f"<li><b>{counts[v]}</b> {_badge(v)}</li>" for v in SYMBOLS if counts[v] or v in ALWAYS_COUNTED)
    many = f"{len(papers)} claims, measured" if len(papers) != 1 else "One claim, measured"
    apart = [claim for claim in claims if claim.kind != "claim"]
    told = ", ".join(f"{claim.number} {claim.verdict} ({KINDS[claim.kind].lower()})" for claim in apart)
    beside = f'<p class="apart">Counted apart: {escape(told)}.</p>' if apart else ""
    bar = f'<div class="bar" aria-hidden="true">{bars}</div>'
    return f'<div class="tally"><p>{many}</p>{bar}<ul>{words}</ul>{beside}</div>'


def _jump(story: Story) -> str:
    """A link to every claim, its verdict beside it."""
    links = [
        f'<li><a class="{CLASSES[claim.verdict]}" href="#claim-{escape(claim.number)}">'
        f'{escape(claim.number)} <span aria-hidden="true">{SYMBOLS[claim.verdict]}</span>'
        f'<span class="unseen"> {claim.verdict}</span></a></li>'
        for claim in story.claims
    ]
    return f'<nav class="jump" aria-label="Every claim"><ul>{"".join(links)}</ul></nav>' if links else ""


def _opening(story: Story, pictures: Pictures, numbered: _Numbers) -> str:
    """The figures that come first."""
    figures = {figure.name: figure for section in story.sections for figure in section.figures}
    return "".join(_figure(figures[name], pictures[name], numbered) for name in story.opening if name in figures)


def _contents(story: Story) -> str:
    lines = [('<a href="#claims">All claims</a>', "")] if story.claims else []
    for section in story.sections:
        marks = "".join(f'<span class="{CLASSES[c.verdict]}">{SYMBOLS[c.verdict]}</span>' for c in section.claims)
        link = f'<a href="#{escape(section.key)}">{to_html(section.title)}</a>'
        lines.append((link, f' <span class="marks" aria-hidden="true">{marks}</span>' if marks else ""))
    for key, shown in (("deviations", story.deviations), ("slips", story.slips), ("about", story.about)):
        lines += [(f'<a href="#{key}">{PARTS[key]}</a>', "")] if shown else []
    items = "".join(f"<li>{link}{marks}</li>" for link, marks in lines)
    return f'<div class="contents"><a class="title" href="#top">Contents</a><ul>{items}</ul></div>'


def _all_claims(story: Story) -> str:
    """One row a claim, its number linked to the evidence; roles keep it a table where it is laid out as cards."""
    if not story.claims:
        return ""
    heads = "".join(
        f'<th scope="col" role="columnheader">{h}</th>' for h in ("", "Claim", "Where", "Measured", "Verdict")
    )
    rows = []
    for section in story.sections:
        for claim in section.claims:
            link = f'<a href="#{escape(section.key)}">{escape(claim.number)}</a>'
            cells = {"Claim": to_html(claim.says), "Where": to_html(claim.where), "Measured": to_html(claim.measured)}
            row = [f'<th scope="row" role="rowheader">{link}</th>']
            row += [f'<td role="cell" data-head="{head}">{cell}</td>' for head, cell in cells.items()]
            row.append(f'<td role="cell" class="verdict">{_badge(claim.verdict)}</td>')
            rows.append(f'<tr role="row">{"".join(row)}</tr>')
    return f"""<section id="claims"><h2>{PARTS["claims"]}</h2>
<details><summary>{len(rows)} rows: what the paper says, where, what was measured, the verdict</summary>
<div class="scroll" role="region" aria-label="All claims" tabindex="0"><table class="claims" role="table">
<thead role="rowgroup"><tr role="row">{heads}</tr></thead>
<tbody role="rowgroup">{"".join(rows)}</tbody></table></div></details></section>"""


def _section(section: Section, pictures: Pictures, numbered: _Numbers, opening: str, shown_first: Sequence[str]) -> str:
    figures = [
        f'<p class="again">Its figure is <a href="#figure-{escape(figure.name)}">at the top of the page</a>.</p>'
        if figure.name in shown_first
        else _figure(figure, pictures[figure.name], numbered)
        for figure in section.figures
    ]
    tables = [_table(table, numbered) for table in section.tables]
    again = f'<p class="again">Run it again: <code>{escape(section.command)}</code></p>' if section.command else ""
    parts = [_paragraphs(section.text), opening, *figures, *tables, _claims(section.claims), again]
    return f"""<section id="{escape(section.key)}"><h2>{to_html(section.title)}</h2>
{"".join(parts)}</section>
"""


def _claims(claims: Sequence[Claim]) -> str:
    """The section's claims in full, with the rule behind each verdict."""
    cards = [
        f"""<article class="claim {CLASSES[claim.verdict]}" id="claim-{escape(claim.number)}">
<h3><span class="number">{KINDS[claim.kind]} {escape(claim.number)}</span> {_badge(claim.verdict)}</h3>
<p class="says">{to_html(claim.says)}</p>
<dl><dt>In the paper</dt><dd>{to_html(claim.where)}</dd>
<dt>Measured</dt><dd>{to_html(claim.measured)}</dd><dt>Decided by</dt><dd>{to_html(claim.rule)}</dd></dl>
</article>"""
        for claim in claims
    ]
    return "\n".join(cards)


def _figure(table: FigureTable, shown: Mapping[Palette, str], numbered: _Numbers) -> str:
    return _picture(table.name, table.caption, shown, numbered.next("Figure"))


def _framework(pictures: Pictures, numbered: _Numbers) -> str:
    return _picture(framework.NAME, framework.CAPTION, pictures[framework.NAME], numbered.next("Figure"))


def _picture(name: str, caption: str, shown: Mapping[Palette, str], number: str) -> str:
    """A picture in its own box; where there are two palettes, the switch decides which one is seen."""
    drawn = "".join(f'<div class="{p}">{svg}</div>' if len(shown) > 1 else svg for p, svg in shown.items())
    return f"""<figure id="figure-{escape(name)}">
<div class="scroll" role="group" aria-label="{number}" tabindex="0">{drawn}</div>
<figcaption><b>{number}.</b> {to_html(caption)}</figcaption></figure>
"""


def _table(table: TextTable, numbered: _Numbers) -> str:
    number = numbered.next("Table")
    head = "".join(f'<th scope="col">{to_html(cell)}</th>' for cell in table.head)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return f"""<figure id="table-{escape(table.name)}" class="table">
<figcaption><b>{number}.</b> {to_html(table.caption)}</figcaption>
<div class="scroll" role="region" aria-label="{number}" tabindex="0">
<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></figure>
"""


def _cell(text: str) -> str:
    short = ' class="short"' if len(text) <= 24 else ""  # a number and its interval stay on one line
    return f"<td{short}>{to_html(text)}</td>"


def _list(key: str, texts: Sequence[str], name: str) -> str:
    if not texts:
        return ""
    items = "\n".join(f'<li id="{name}-{number}">{to_html(text)}</li>' for number, text in enumerate(texts, 1))
    return f'<section id="{key}"><h2>{PARTS[key]}</h2><ol>{items}</ol></section>'


def _about(about: Mapping[str, str]) -> str:
    if not about:
        return ""
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{to_html(value)}</dd>" for name, value in about.items())
    return f'<section id="about"><h2>{PARTS["about"]}</h2><dl class="about">{pairs}</dl></section>'
