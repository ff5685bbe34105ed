"""A saved SVG made fit for a page: ids of its own, the page's ink, no background, words for those who cannot see it."""

import re
from xml.etree import ElementTree

from zscout.report.ink import BACKGROUND, CAPTION, INK

_SPACE, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_POINTER = re.compile(r"url\(#([^)]+)\)")


def to_inline(svg: bytes, key: str, alt: str, height: float) -> str:
    """An ``<svg>`` element for HTML, without caption and background.

    ``key`` is in each of its ids and differs from that of any other picture there; ``height`` in inches ends the
    picture above its caption.
    """
    root = ElementTree.fromstring(svg)
    for parent in root.iter():
        for child in [child for child in parent if _is_the_pages(child)]:
            parent.remove(child)
    wanted = {name for element in root.iter() for name in _pointed_at(element)}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SPACE)
        element.attrib = dict(_rewritten(element.attrib, wanted, key))
        element.tail = None
        element.text = None
    width = float(root.attrib.pop("width").removesuffix("pt"))
    del root.attrib["height"]
    root.attrib |= {"viewBox": f"0 0 {width:g} {72 * height:g}", "style": f"--width: {width / 72 * 96:.0f}px"}
    root.attrib |= {"role": "img", "aria-label": alt}
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    return ElementTree.tostring(root, encoding="unicode")


def _is_the_pages(element: ElementTree.Element) -> bool:
    """Whether the page has its own, or would take it for its own: style is for all of it, wherever it stands."""
    return element.tag.endswith(("metadata", "style")) or element.get("id") in (BACKGROUND, CAPTION)


def _pointed_at(element: ElementTree.Element) -> list[str]:
    link = element.get(_LINK, "")
    return [*([link[1:]] if link.startswith("#") else []), *_POINTER.findall(" ".join(element.attrib.values()))]


def _rewritten(attributes: dict[str, str], wanted: set[str], key: str) -> list[tuple[str, str]]:
    """Attributes without namespaces and without ids that nothing points at."""
    kept = []
    for name, value in attributes.items():
        if name == "id":
            if value in wanted:
                kept.append(("id", f"{key}--{value}"))
        elif name == _LINK:
            kept.append(("href", value.replace("#", f"#{key}--", 1) if value.startswith("#") else value))
        else:
            kept.append((name, _POINTER.sub(rf"url(#{key}--\1)", value).replace(INK, "currentColor")))
    return kept
