"""Files and modules that pages name exist."""

from pathlib import Path

import citations
import links
import pytest

ROOT = Path(__file__).parents[3]
PAGES = [page for page in links.pages() if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_modules_that_a_page_names_exist(page):
    assert citations.missing(page) == []


@pytest.mark.parametrize(
    "name",
    [
        "translate/gone.py",
        "src/varnish_gateway/translate/gone",
        "tests/{unit,gone}",
        "varnish_gateway.translate.gone.more",
        "tools/docs/<gone>.txt",
    ],
)
def test_missing_file_or_module_is_found(tmp_path, name):
    page = tmp_path / "page.md"
    page.write_text(f"See `{name}`.")
    assert citations.missing(page) == [name]


@pytest.mark.parametrize(
    "name",
    ["translate/incremental", "ghost/ghost-core", "tests/{unit,golden}", "varnish_gateway.cli.main", "examples/NAME"],
)
def test_existing_file_or_module_is_accepted(tmp_path, name):
    page = tmp_path / "page.md"
    page.write_text(f"See `{name}`.")
    assert list(citations.cited(page)) == [name]
    assert citations.missing(page) == []


def test_other_words_in_code_are_no_citations(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`application/json`, `/ready`, `build/site`, `varnish.io/infra-hash`\n```\n`tests/gone`\n```\n")
    assert list(citations.cited(page)) == []
