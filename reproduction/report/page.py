"""The story as one HTML file without external links: no script, no font, no picture outside it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import count
from string import Template
from typing import get_args

from reproduction.report.figures import framework
from reproduction.report.model import Claim, ClaimVerdict, Kind, Section, Story
from zscout.base.markup import plain, to_html
from zscout.lab.compare.tables import TextTable
from zscout.watch.ink import Palette

Pictures = Mapping[str, Mapping[Palette, str]]  # inline SVG by the figure's name and the palette
Numbers = Mapping[str, Iterator[int]]  # the next number of a figure and of a table

VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)
SYMBOLS = dict(zip(VERDICTS, "✓◐✗?", strict=True))
CLASSES = dict(zip(VERDICTS, ("yes", "part", "no", "few"), strict=True))
KINDS: dict[Kind, str] = {"claim": "Claim", "check": "Check", "ours": "Our addition"}
PARTS = {"claims": "All claims", "deviations": "Where we deviate", "slips": "Slips in the paper", "about": "About"}


def render(story: Story, pictures: Pictures) -> str:
    """The whole page; ``pictures`` must have every figure of the story and may have the framework."""
    check(story)
    if missing := [f.name for section in story.sections for f in section.figures if f.name not in pictures]:
        raise ValueError(f"no picture of {', '.join(missing)}")
    numbers = {"Figure": count(1), "Table": count(1)}
    captions = {figure.name: figure.caption for section in story.sections for figure in section.figures}
    shown_first = [_picture(n, captions[n], pictures, numbers) for n in story.opening if n in captions]
    homeless = framework.NAME in pictures and all(section.key != framework.NAME for section in story.sections)
    opening = _picture(framework.NAME, framework.CAPTION, pictures, numbers) if homeless else ""
    sections = [_section(section, pictures, numbers, story.opening) for section in story.sections]
    template = Template(files("reproduction.report").joinpath("page.html").read_text("utf-8"))
    about = "".join(f"<dt>{escape(name)}</dt><dd>{to_html(value)}</dd>" for name, value in story.about.items())
    return template.substitute(
        title=escape(plain(story.title)),
        style=files("reproduction.report").joinpath("page.css").read_text("utf-8"),
        heading=to_html(story.title),
        summary=_paragraphs(story.summary),
        tally=_tally(story.claims),
        jump=_jump(story),
        shown_first="".join(shown_first),
        contents=_contents(story),
        opening=opening,
        claims=_all_claims(story),
        sections="".join(sections),
        deviations=_part("deviations", _list(story.deviations, "deviation")),
        slips=_part("slips", _list(story.slips, "slip")),
        about=_part("about", f'<dl class="about">{about}</dl>' if about else ""),
    )


def check(story: Story) -> None:
    """Raise if two things on the page have the same name: links and files are by name."""
    names = {
        "section": ["top", *PARTS, *(section.key for section in story.sections)],
        "figure": [framework.NAME, *(figure.name for section in story.sections for figure in section.figures)],
        "table": ["claims", *(table.name for section in story.sections for table in section.tables)],
        "claim": [claim.number for claim in story.claims],
    }
    if twice := [f"{kind} {name!r}" for kind, used in names.items() for name, n in Counter(used).items() if n > 1]:
        raise ValueError(f"names on the page must be unique, these are not: {', '.join(twice)}")


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{to_html(text)}</p>" for text in texts)


def _badge(verdict: ClaimVerdict) -> str:
    return f'<span class="badge {CLASSES[verdict]}"><span aria-hidden="true">{SYMBOLS[verdict]}</span> {verdict}</span>'


def _tally(claims: Sequence[Claim]) -> str:
    """How many claims of the paper hold: a bar, and the same in words; checks and our additions separately."""
    if not claims:
        return ""
    counts = Counter(claim.verdict for claim in claims if claim.kind == "claim")
    bars = "".join(f'<span class="{CLASSES[v]}" style="flex-grow: {counts[v]}"></span>' for v in VERDICTS if counts[v])
    listed = [verdict for verdict in VERDICTS if counts[verdict] or verdict != "too few runs to tell"]
    words = "".join(f"<li><b>{counts[verdict]}</b> {_badge(verdict)}</li>" for verdict in listed)
    many = "One claim" if counts.total() == 1 else f"{counts.total()} claims"
    others = [f"{c.number} {c.verdict} ({KINDS[c.kind].lower()})" for c in claims if c.kind != "claim"]
    beside = f'<p class="apart">Counted separately: {escape(", ".join(others))}.</p>' if others else ""
    bar = f'<div class="bar" aria-hidden="true">{bars}</div>'
    return f'<div class="tally"><p>{many}, measured</p>{bar}<ul>{words}</ul>{beside}</div>'


def _jump(story: Story) -> str:
    """A link to every claim, its verdict beside it."""
    links = [
        f'<li><a class="{CLASSES[claim.verdict]}" href="#claim-{escape(claim.number)}">'
        f'{escape(claim.number)} <span aria-hidden="true">{SYMBOLS[claim.verdict]}</span>'
        f'<span class="unseen"> {claim.verdict}</span></a></li>'
        for claim in story.claims
    ]
    return f'<nav class="jump" aria-label="Every claim"><ul>{"".join(links)}</ul></nav>' if links else ""


def _contents(story: Story) -> str:
    items = ['<a href="#claims">All claims</a>'] if story.claims else []
    for section in story.sections:
        marks = "".join(f'<span class="{CLASSES[c.verdict]}">{SYMBOLS[c.verdict]}</span>' for c in section.claims)
        link = f'<a href="#{escape(section.key)}">{to_html(section.title)}</a>'
        items.append(f'{link} <span class="marks" aria-hidden="true">{marks}</span>' if marks else link)
    shown = {"deviations": story.deviations, "slips": story.slips, "about": story.about}
    items += [f'<a href="#{key}">{PARTS[key]}</a>' for key, content in shown.items() if content]
    lines = "".join(f"<li>{item}</li>" for item in items)
    return f'<div class="contents"><a class="title" href="#top">Contents</a><ul>{lines}</ul></div>'


def _all_claims(story: Story) -> str:
    """One row a claim, its number linked to the evidence; roles keep it a table when CSS lays it out as cards."""
    if not story.claims:
        return ""
    names = ("", "Claim", "Where", "Measured", "Verdict")
    heads = "".join(f'<th scope="col" role="columnheader">{name}</th>' for name in names)
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


def _section(section: Section, pictures: Pictures, numbers: Numbers, shown_first: Sequence[str]) -> str:
    parts = [_paragraphs(section.text)]
    if section.key == framework.NAME and framework.NAME in pictures:
        parts.append(_picture(framework.NAME, framework.CAPTION, pictures, numbers))
    for figure in section.figures:
        if figure.name in shown_first:
            link = f'<a href="#figure-{escape(figure.name)}">at the top of the page</a>'
            parts.append(f'<p class="again">Its figure is {link}.</p>')
        else:
            parts.append(_picture(figure.name, figure.caption, pictures, numbers))
    parts += [*(_table(table, numbers) for table in section.tables), _cards(section.claims)]
    if section.command:
        parts.append(f'<p class="again">Run it again: <code>{escape(section.command)}</code></p>')
    return f"""<section id="{escape(section.key)}"><h2>{to_html(section.title)}</h2>
{"".join(parts)}</section>
"""


def _cards(claims: Sequence[Claim]) -> str:
    """Claims side by side where there is room."""
    return f'<div class="cards">{"".join(map(_claim, claims))}</div>' if claims else ""


def _claim(claim: Claim) -> str:
    """A claim in full, with the rule behind its verdict."""
    return f"""<article class="claim {CLASSES[claim.verdict]}" id="claim-{escape(claim.number)}">
<h3><span class="number">{KINDS[claim.kind]} {escape(claim.number)}</span> {_badge(claim.verdict)}</h3>
<p class="says">{to_html(claim.says)}</p>
<dl><dt>In the paper</dt><dd>{to_html(claim.where)}</dd>
<dt>Measured</dt><dd>{to_html(claim.measured)}</dd><dt>Decided by</dt><dd>{to_html(claim.rule)}</dd></dl>
</article>"""


def _picture(name: str, caption: str, pictures: Pictures, numbers: Numbers) -> str:
    """A picture in its own box; with two palettes, the switch selects the visible one."""
    number, shown = f"Figure {next(numbers['Figure'])}", pictures[name]
    drawn = "".join(f'<div class="{p}">{svg}</div>' if len(shown) > 1 else svg for p, svg in shown.items())
    return f"""<figure id="figure-{escape(name)}">
<div class="scroll" role="group" aria-label="{number}" tabindex="0">{drawn}</div>
<figcaption><b>{number}.</b> {to_html(caption)}</figcaption></figure>
"""


def _table(table: TextTable, numbers: Numbers) -> str:
    number = f"Table {next(numbers['Table'])}"
    head = "".join(f'<th scope="col">{to_html(cell)}</th>' for cell in table.head)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="note">{to_html(table.note)}</p>' if table.note else ""
    return f"""<figure id="table-{escape(table.name)}" class="table">
<figcaption><b>{number}.</b> {to_html(table.caption)}</figcaption>
<div class="scroll" role="region" aria-label="{number}" tabindex="0">
<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}</figure>
"""


def _cell(text: str) -> str:
    """A number and its interval stay on one line, a list may wrap, and words have room."""
    kind = "long" if len(text) > 24 else "list" if ", " in text else "short"
    return f'<td class="{kind}">{to_html(text)}</td>'


def _list(texts: Sequence[str], name: str) -> str:
    items = "\n".join(f'<li id="{name}-{number}">{to_html(text)}</li>' for number, text in enumerate(texts, 1))
    return f"<ol>{items}</ol>" if texts else ""


def _part(key: str, content: str) -> str:
    return f'<section id="{key}"><h2>{PARTS[key]}</h2>{content}</section>' if content else ""
