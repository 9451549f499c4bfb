"""Hooks of mkdocs: the site also holds the files outside of docs/ that its pages link to.

A page under docs/ may link to any file of the tree, as on GitHub. In the site such a file is
below ``tree/``: a page if it is Markdown, a listing if it is a directory, else a copy. mkdocs then
checks these links like all others.
"""

import posixpath
from pathlib import Path

import links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = "docs"
TREE = "tree"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": links.slug}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    found: dict[str, Path] = {}
    waiting = [Path(file.abs_src_path or "") for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for link in links.links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            name = target.relative_to(links.ROOT).as_posix()
            if name in found or target.is_relative_to(links.ROOT / DOCS) or not target.exists():
                continue
            found[name] = target
            waiting += [target] if target.suffix == ".md" else []
    for name, target in sorted(found.items()):
        files.append(_file(name, target, config))
    return files


def _file(name: str, target: Path, config: MkDocsConfig) -> File:
    if not target.is_dir():
        return File.generated(config, f"{TREE}/{name}", abs_src_path=str(target))
    listing = "\n".join(
        f"- `{entry.name}`" for entry in sorted(target.iterdir()) if not entry.name.startswith((".", "_"))
    )
    return File.generated(config, f"{TREE}/{name}/listing.md", content=f"# {name}\n\n{listing}\n")


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    here = page.file.src_uri

    def rewritten(link: str) -> str:
        path, hash_, anchor = link.partition("#")
        if links.ELSEWHERE.match(link) or not path:
            return link
        target = posixpath.normpath(posixpath.join(posixpath.dirname(_in_tree(here)), path))
        return posixpath.relpath(_in_site(target), posixpath.dirname(here)) + hash_ + anchor

    return links.outside_code(markdown, lambda text: links.LINK.sub(lambda m: m[1] + rewritten(m[2]) + m[3], text))


def _in_tree(uri: str) -> str:
    """Return the place in the tree of a file of the site."""
    return uri.removeprefix(f"{TREE}/") if uri.startswith(f"{TREE}/") else f"{DOCS}/{uri}"


def _in_site(path: str) -> str:
    """Return the place in the site of a file of the tree."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return f"{TREE}/{path}/listing.md" if (links.ROOT / path).is_dir() else f"{TREE}/{path}"
