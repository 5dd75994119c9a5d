"""One rank of a small job whose further state grows and shrinks: for room_test.py.

`--grow 1:6:12`: from iteration 6 to 12 rank 1 has more to carry than there is room for; with `raise`
in place of a size its state cannot be asked for at all.
"""

import argparse
import json
import os
import time

import torch

from monkeytree.torch import Migratable, World


class Notes:
    """State of a program that keeps what it likes."""

    def __init__(self, start):
        self.words = b"x" * start
        self.raises = False

    def state_dict(self):
        if self.raises:
            raise RuntimeError("no notes now")
        return {"words": self.words}

    def load_state_dict(self, state):
        self.words = state["words"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--gates", type=int, nargs="*", default=[])
    parser.add_argument("--grow", required=True)
    parser.add_argument("--how", choices=("size", "raise"), default="size")
    options = parser.parse_args()
    torch.set_num_threads(1)
    world = World.from_environment()
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    # A successor is made with less, before it gets its state.
    successor = "MONKEYTREE_SUCCESSOR_OF" in os.environ
    notes = Notes(0 if successor else 20000 * (1 + world.rank))
    training = Migratable(model, optimizer, world, state={"notes": notes}, object_bytes=64)
    training.start()
    who, first, last = map(int, options.grow.split(":"))
    kept = notes.words
    log = open(os.path.join(options.out, f"rank-{world.rank}.jsonl"), "a", buffering=1)
    while training.iteration < options.iterations:
        while training.iteration in options.gates and not os.path.exists(
                os.path.join(options.out, f"go-{training.iteration}")):
            time.sleep(0.005)
        grown = world.rank == who and first <= training.iteration <= last
        notes.raises = grown and options.how == "raise"
        notes.words = kept * 10 if grown and options.how == "size" else kept
        generator = torch.Generator().manual_seed(training.iteration * 10 + world.rank)
        loss = model(torch.randn(4, 8, generator=generator)).square().mean()
        loss.backward()
        training.reduce_gradients()
        optimizer.step()
        optimizer.zero_grad()
        log.write(json.dumps({"iteration": training.iteration, "loss": loss.item().hex(),
                              "notes": len(notes.words), "pid": os.getpid()}) + "\n")
        training.step()
    training.close()


if __name__ == "__main__":
    main()
