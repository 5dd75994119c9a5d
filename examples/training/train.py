"""A small GPT on synthetic data, one rank of a data-parallel job that can be moved.

Started by launch.py; each rank is a process. Writes a line per iteration to OUT/rank-R.jsonl, and at
the end the checksums of all state to OUT/rank-R.state.json.
"""

import argparse
import hashlib
import json
import os
import pickle
import random
import time

import numpy
import torch

from monkeytree.torch import Migratable, ShardedOptimizer, World


class Block(torch.nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.first = torch.nn.LayerNorm(width)
        self.attention = torch.nn.Linear(width, 3 * width)
        self.projection = torch.nn.Linear(width, width)
        self.second = torch.nn.LayerNorm(width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.attention(self.first(x)).view(
            batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / (width // self.heads) ** 0.5
        mixed = self.dropout(torch.softmax(scores + mask, -1)) @ v
        x = x + self.dropout(self.projection(mixed.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.narrow(torch.nn.functional.gelu(self.wide(self.second(x)))))


class Gpt(torch.nn.Module):
    def __init__(self, words, width, layers, heads, length, dropout):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.position = torch.nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = torch.nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, words, bias=False)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


class Data:
    """Synthetic text: a walk whose next word depends on the last; with the cursor of one rank."""

    def __init__(self, rank, words, length, batch):
        self.rank, self.words, self.length, self.batch = rank, words, length, batch
        self.cursor = 0

    def next(self):
        generator = torch.Generator().manual_seed(self.rank * 1000003 + self.cursor)
        self.cursor += 1
        steps = torch.randint(0, 3, (self.batch, self.length + 1), generator=generator)
        start = torch.randint(0, self.words, (self.batch, 1), generator=generator)
        tokens = (start + steps.cumsum(1)) % self.words
        return tokens[:, :-1], tokens[:, 1:]

    def state_dict(self):
        return {"cursor": self.cursor}

    def load_state_dict(self, state):
        self.cursor = state["cursor"]


def digest(value):
    if torch.is_tensor(value):
        value = value.detach().cpu().contiguous().numpy().tobytes()
    return hashlib.sha256(value if isinstance(value, bytes) else pickle.dumps(value)).hexdigest()


def whole_state(training):
    """A checksum of everything that a later iteration depends on."""
    state = {name: digest(tensor) for name, tensor, _ in training._tensors()}
    objects = training._objects()
    state["torch"] = digest(objects["torch"])
    state["python"] = digest(repr(objects["python"]).encode())
    state["numpy"] = digest(repr(objects["numpy"]).encode() + objects["numpy"][1].tobytes())
    state["rest"] = digest(repr([objects["iteration"], objects["groups"], objects["schedulers"],
                                 objects["state"]]).encode())
    return state


def gates(text):
    """The iterations of "7" or "5-299"."""
    first, dash, last = text.partition("-")
    if not all(each.isdecimal() for each in ([first, last] if dash else [first])):
        raise argparse.ArgumentTypeError(f"{text!r}: expected an iteration, or a range like 5-299")
    if dash and int(last) < int(first):
        raise argparse.ArgumentTypeError(f"{text!r}: the range ends before it begins")
    return range(int(first), int(last if dash else first) + 1)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--words", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--optimizer", choices=("adamw", "sgd", "zero"), default="adamw")
    parser.add_argument("--reducer", choices=("ordered", "ring"), default="ordered")
    parser.add_argument("--gates", type=gates, nargs="*", default=[], metavar="ITERATION[-LAST]",
                        help="iterations before which to wait for the file OUT/go-ITERATION")
    options = parser.parse_args(words)
    options.gates = {iteration for each in options.gates for iteration in each}
    return options


def wait_at_gate(options, iteration):
    while iteration in options.gates and not os.path.exists(
            os.path.join(options.out, f"go-{iteration}")):
        time.sleep(0.005)


def main():
    options = arguments()
    torch.set_num_threads(1)
    world = World.from_environment()
    torch.manual_seed(1)
    model = Gpt(options.words, options.width, options.layers, 4, options.length, options.dropout)
    torch.manual_seed(100 + world.rank)
    random.seed(world.rank)
    numpy.random.seed(world.rank)
    make = {"adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
            "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
            "zero": lambda p: torch.optim.AdamW(p, lr=1e-3)}[options.optimizer]
    if options.optimizer == "zero":
        optimizer = ShardedOptimizer(model.parameters(), make, world)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer.local, 7, 0.9)
    else:
        optimizer = make(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9)
    data = Data(world.rank, options.words, options.length, options.batch)
    training = Migratable(model, optimizer, world, schedulers=[scheduler], state={"data": data},
                          reducer=options.reducer)
    training.start()
    log = open(os.path.join(options.out, f"rank-{world.rank}.jsonl"), "a", buffering=1)
    while training.iteration < options.iterations:
        wait_at_gate(options, training.iteration)
        tokens, wanted = data.next()
        logits = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        loss = loss + 1e-4 * random.random() + 1e-4 * numpy.random.rand()
        loss.backward()
        training.reduce_gradients()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        log.write(json.dumps({"iteration": training.iteration, "loss": loss.item().hex(),
                              "pid": os.getpid()}) + "\n")
        training.step()
        if training.last_pause:
            log.write(json.dumps({"pause": training.last_pause}) + "\n")
            training.last_pause = None
    with open(os.path.join(options.out, f"rank-{world.rank}.state.json"), "w") as out:
        json.dump(whole_state(training), out)
    training.close()


if __name__ == "__main__":
    main()
