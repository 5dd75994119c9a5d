"""The pause of a training job while one rank moves, by phase, beside the way over files, in one run.

    PYTHONPATH=build/release/python OMP_NUM_THREADS=1 python3 bench/state_pause.py [--smoke]

Two ranks of a GPT with AdamW on this machine. The pause is what a rank that stays sees, from the end
of an iteration to the next one's start. The file way: torch.save of the same state to tmpfs, a new
process started after the pause began, torch.load.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/training"))
from job import Job  # noqa: E402
from local_agent import LocalAgent  # noqa: E402
from monkeytree import Arena  # noqa: E402

LOADER = """
import sys, torch
sys.path.insert(0, sys.argv[2])
import train
state = torch.load(sys.argv[1])
"""


def raw_rate(arena):
    """Bytes per second of one plain copy between warm mappings of this layout."""
    target = Arena.create(arena.layout)
    pairs = [(torch.frombuffer(target.buffer(name), dtype=torch.uint8),
              torch.frombuffer(arena.buffer(name), dtype=torch.uint8))
             for name, size, _ in arena.layout if size > 0]
    best = 1e9
    for _ in range(3):
        start = time.monotonic()
        for into, out in pairs:
            into.copy_(out)
        best = min(best, time.monotonic() - start)
    return arena.payload_bytes / best


def file_way(arena):
    """Seconds to save, to start a process and load."""
    state = {name: torch.frombuffer(arena.buffer(name), dtype=torch.uint8)
             for name, size, _ in arena.layout if size > 0}
    folder = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        path = os.path.join(scratch, "state.pt")
        start = time.monotonic()
        torch.save(state, path)
        saved = time.monotonic()
        subprocess.run([sys.executable, "-c", LOADER, path,
                        os.path.join(folder, "../examples/training")], check=True)
        return saved - start, time.monotonic() - saved


def measure(label, model_arguments, moves, transport):
    with tempfile.TemporaryDirectory() as folder:
        agent = LocalAgent(os.path.join(folder, "agent.sock"), transport)
        gates = [str(2 + 2 * i) for i in range(moves)]
        job = Job(2, os.path.join(folder, "out"), agent.path, "--iterations", str(2 * moves + 4),
                  "--gates", *gates, *model_arguments)
        try:
            agent.wait_for_workers(2, timeout=300)
            arena = agent.workers[0].arena
            rate = raw_rate(arena)
            size = arena.payload_bytes
            for i in range(moves):
                times, process = agent.move(1, f"m{i}",
                                            asked=lambda at=gates[i]: job.open_gate(at))
                job.add(process)
                pause = job.losses(0, pauses=True)[-1]["pause"]
                whole = sum(pause.values())
                goal = 1.5 * size / rate + 0.05
                print(f"{label} {transport}: {size / 1e6:.0f} MB, plain copy {size / rate:.3f} s; "
                      f"pause {whole:.3f} s = commit {pause['commit']:.3f} + stand "
                      f"{pause['stand']:.3f} (copy {times['copy']:.3f}, restore "
                      f"{times['restore']:.3f}) + join {pause['join']:.3f}; goal {goal:.3f}",
                      flush=True)
            job.wait(600)
            if transport == "shm":
                saved, loaded = file_way(arena)
                print(f"{label} files: torch.save {saved:.2f} s, new process and torch.load "
                      f"{loaded:.2f} s, together {(saved + loaded) / whole:.0f} times the pause",
                      flush=True)
        finally:
            job.kill()
            agent.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a small model, one move")
    parser.add_argument("--large", action="store_true", help="also some 400 M parameters")
    options = parser.parse_args()
    small = ("--batch", "1")
    measure("0.1 M parameters", small, 1 if options.smoke else 3, "shm")
    if options.smoke:
        return
    medium = ("--batch", "1", "--length", "16", "--words", "8192", "--width", "768",
              "--layers", "12")
    for transport in ("shm", "tcp"):
        measure("98 M parameters", medium, 2, transport)
    if options.large:
        large = ("--batch", "1", "--length", "16", "--words", "16384", "--width", "1280",
                 "--layers", "18")
        measure("400 M parameters", large, 1, "shm")


if __name__ == "__main__":
    main()
