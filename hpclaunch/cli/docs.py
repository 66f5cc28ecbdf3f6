"""``docs``: the pages of the manual."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.cli import run_flags
from hpclaunch.cli.offers import offer

app = typer.Typer()


@app.command("docs")
def docs(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="The topic of a page [default: list all pages].",
            autocompletion=offer("topics"),
        ),
    ] = None,
    path: Annotated[bool, typer.Option("--path", help="Print the path of the page's file instead.")] = False,
    json: run_flags.Json = False,
) -> None:
    """Read a page of the manual, or list the pages.

    On a terminal a long page opens in your pager ($PAGER, else less). In a pipe it is Markdown.
    """
    from hpclaunch.actions import manual
    from hpclaunch.cli.show import console

    found = manual.pages() if topic is None else [manual.find_page(topic)]
    about = [{"topic": page.topic, "title": page.title, "path": str(page.path)} for page in found]
    if json:
        if topic is None:
            console.write_json("pages", {"pages": about})
        else:
            console.write_json("page", {**about[0], "text": manual.text_of_page(found[0])})
    elif path:
        console.write("".join(f"{page['path']}\n" for page in about))
    elif topic is None:
        console.table(("topic", "page"), [(page.topic, page.title) for page in found])
        console.say("to read one: hpclaunch docs TOPIC")
    else:
        console.write_markdown(manual.text_of_page(found[0]))
