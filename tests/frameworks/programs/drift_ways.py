"""What the drifting programs share: they let ranks drift apart in the ways that --ways names, one training each."""

import json
import os

from hpclaunch.training.rank.failure import AgreedError

SETTINGS = {
    "ways": {"default": "", "help": "names of functions, with commas between"},
    "caught": {"default": True, "help": "go on with the next way"},
}


def run_all(run, settings, functions):
    """Call the chosen ones of the program's functions (by name); RUN/drift-RANK.json tells what ended each.

    With --caught=false the first way ends the run as it does in a program.
    """
    found = {}
    for way in settings.ways.split(","):
        try:
            functions[way]()
            found[way] = ""
        except AgreedError as error:
            if not settings.caught:
                raise
            found[way] = str(error)
        saved = os.path.join(run.folder, "checkpoints")
        found[way] += " SAVED" if os.path.isdir(saved) and os.listdir(saved) else ""
    with open(os.path.join(run.folder, f"drift-{run.rank}.json"), "w") as file:
        json.dump(found, file)
