"""Trains jobs/JOB/train.py as it is and leaves hashes of this rank's weights, and whether TensorFlow used oneDNN."""

import hashlib
import importlib
import json
import os
import sys

from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start

job_folder = sys.argv.pop(1)
sys.path.insert(0, job_folder)
script = importlib.import_module("train")
with failure.reported():
    world = start("test", 1)
    model = script.train(script.parse(), world)
    hashes = [hashlib.sha256(weight.tobytes()).hexdigest() for weight in model.get_weights()]
    from tensorflow.python.util import _pywrap_util_port

    with open(os.path.join(world.run_dir, f"onednn-{world.rank}.json"), "w") as file:
        json.dump(_pywrap_util_port.IsMklEnabled(), file)
    with open(os.path.join(world.run_dir, f"weights-{world.rank}.json"), "w") as file:
        json.dump(hashes, file)
