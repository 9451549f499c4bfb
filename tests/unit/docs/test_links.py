"""Links between Markdown files lead somewhere, and the index of docs/ lists every page."""

from pathlib import Path

import links
import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page):
    assert list(links.broken(page)) == []


def test_missing_file_missing_heading_and_path_outside_the_tree_are_broken(tmp_path):
    page = tmp_path / "tree" / "page.md"
    page.parent.mkdir()
    (tmp_path / "elsewhere.md").touch()
    page.write_text("# Here\n[a](gone.md) [b](#there) [c](#here) [d](../elsewhere.md) [e](https://example.com)\n")
    targets = [line.split(": ")[1] for line in links.broken(page, page.parent)]
    assert targets == ["gone.md", "#there", "../elsewhere.md"]


def test_links_in_code_do_not_count(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```\n[a](gone.md)\n```\n")
    assert links.links(page) == []


def test_anchor_of_a_heading_is_githubs():
    assert links.slug("The client's `X-Forwarded-For`, and more") == "the-clients-x-forwarded-for-and-more"


@pytest.mark.parametrize(
    ("index", "under"),
    [("docs/README.md", "docs"), ("docs/contributing/decisions/README.md", "docs/contributing/decisions")],
)
def test_index_lists_every_page(index, under):
    listed = {(ROOT / index).parent.joinpath(link.partition("#")[0]).resolve() for link in links.links(ROOT / index)}
    decisions = ROOT / "docs" / "contributing" / "decisions"
    pages = {
        page
        for page in (ROOT / under).rglob("*.md")
        if page.parent != decisions or under == "docs/contributing/decisions"
    }
    assert pages - {ROOT / index} <= listed
