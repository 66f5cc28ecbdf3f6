"""Which completion a flag or an argument has; only a shell that asks loads the module with the completions."""

# Annotations stay types here: Typer would compile the text of each at every start.
from collections.abc import Callable

import typer

Offer = Callable[[typer.Context, str], list[str]]


def offer(name: str) -> Offer:
    """Return the completion that ``complete`` has by this name."""

    def completion(ctx: typer.Context, incomplete: str) -> list[str]:
        from hpclaunch.cli.complete import COMPLETIONS

        return COMPLETIONS[name](ctx, incomplete)

    return completion


def one_of(*words: str) -> Offer:
    """Return a completion of these words."""

    def completion(_: typer.Context, incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completion
