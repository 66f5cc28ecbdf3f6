"""The program of the job: every rank writes what it sees into a file of FOLDER, and does what FOLDER/plan.json says.

usage: program.py FOLDER [ARGUMENT …]. Needs only the standard library of Python 3.8.
"""

import json
import os
import signal
import socket
import sys
import time

WATCHED = ("ODD", "STRAY", "OMP_NUM_THREADS", "TYPED")
PATIENCE_S = 400


def main():
    folder, arguments = sys.argv[1], sys.argv[2:]
    rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "-1"))
    job = os.environ.get("SLURM_HET_JOB_ID") or os.environ.get("SLURM_JOB_ID", "0")
    restart = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    seen = {
        "rank": rank,
        "job": job,
        "restart": restart,
        "host": socket.gethostname(),
        "gpus": [gpu for gpu in gpus.split(",") if gpu],
        "arguments": arguments,
        "variables": {name: os.environ[name] for name in WATCHED if name in os.environ},
    }
    earlier = [name for name in os.listdir(folder) if name.startswith("rank-")]
    mine = f"rank-{rank}-{job}-{restart}-"
    path = os.path.join(folder, f"{mine}{socket.gethostname()}-{os.getpid()}")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(seen, file)
    os.rename(path + ".new", path + ".json")
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    first = all(name.split("-")[2:4] == [job, str(restart)] for name in earlier)
    if plan.get("hold_first_start") and first:
        if plan.get("ignore_terminate"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        deadline = time.time() + PATIENCE_S
        while time.time() < deadline:
            time.sleep(1)
    if rank == plan.get("exit", {}).get("rank"):
        time.sleep(1)
        sys.exit(plan["exit"]["code"])


if __name__ == "__main__":
    main()
