"""One rank of a job with tensor, pipeline and data parallelism, two of each: for grid_test.py.

Two stages of a multilayer perceptron; each stage's first layer is split by columns, its second by
rows, over two ranks. Written plainly: forward and backward by hand where ranks meet.
"""

import argparse
import json
import os
import time

import torch

from monkeytree.torch import Migratable, World, rank_groups

WIDTH, BATCH = 16, 4


class Stage(torch.nn.Module):
    """This rank's half of a stage; its output is a part of a sum over the tensor-parallel ranks."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.second = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x):
        return self.second(self.dropout(torch.tanh(self.first(x))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--gates", type=int, nargs="*", default=[])
    options = parser.parse_args()
    torch.set_num_threads(1)
    world = World.from_environment(rank_groups(2, 2, 2))
    stage = world.own("pipeline").index(world.rank)
    replica = world.own("data").index(world.rank)
    torch.manual_seed(world.own("data")[0])  # replicas begin alike
    model = Stage()
    torch.manual_seed(1000 + world.rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    training = Migratable(model, optimizer, world)
    training.start()
    log = open(os.path.join(options.out, f"rank-{world.rank}.jsonl"), "a", buffering=1)
    while training.iteration < options.iterations:
        while training.iteration in options.gates and not os.path.exists(
                os.path.join(options.out, f"go-{training.iteration}")):
            time.sleep(0.005)
        groups = training.group.groups
        pipeline, tensor = groups["pipeline"], groups["tensor"]
        generator = torch.Generator().manual_seed(training.iteration * 10 + replica)
        x = torch.randn(BATCH, WIDTH, generator=generator)
        wanted = x.flip(1)
        if stage == 1:
            pipeline.receive(x, 0)
        x.requires_grad_(stage == 1)
        part = model(x)
        y = part.detach().clone()
        tensor.ordered_sum(y)
        loss = 0.0
        if stage == 0:
            pipeline.send(y, 1)
            gradient = torch.empty_like(y)
            pipeline.receive(gradient, 1)
        else:
            loss = ((y - wanted) ** 2).mean().item()
            gradient = 2 * (y - wanted) / y.numel()
        part.backward(gradient)
        if stage == 1:
            back = x.grad.clone()
            tensor.ordered_sum(back)
            pipeline.send(back, 0)
        training.reduce_gradients()
        optimizer.step()
        optimizer.zero_grad()
        log.write(json.dumps({"iteration": training.iteration, "loss": loss.hex(),
                              "weights": [each.double().sum().item().hex()
                                          for each in model.parameters()],
                              "pid": os.getpid()}) + "\n")
        training.step()
    training.close()


if __name__ == "__main__":
    main()
