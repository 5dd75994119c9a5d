"""A rank of a data-parallel job whose gradients go round a ring, on a node of a fabric. To compute is
a timed wait, so that the network is what is measured.

Before each iteration it waits until the number in OUT/until is greater; where "last" stands behind the
number, that is the end. Writes what it does to OUT/rank-R.jsonl, and at the end, in OUT/rank-R.done, a
checksum of the parameters.
"""

import argparse
import hashlib
import json
import os
import time

os.environ.setdefault("RANK", os.environ.get("SLURM_PROCID", "0"))
if "MONKEYTREE_TEST_SOCKETS" in os.environ:
    # The nodes are one machine: the agent's socket is the one of the node.
    os.environ["MONKEYTREE_AGENT_SOCKET"] = os.path.join(os.environ["MONKEYTREE_TEST_SOCKETS"],
                                                         os.environ["SLURMD_NODENAME"])

import torch  # noqa: E402

from monkeytree.torch import Migratable, World  # noqa: E402


class Data:
    """Numbers that depend on rank and place alone; with its cursor."""

    def __init__(self, rank, size):
        self.rank, self.size, self.cursor = rank, size, 0

    def next(self):
        generator = torch.Generator().manual_seed(self.rank * 1000003 + self.cursor)
        self.cursor += 1
        return torch.randn(self.size, generator=generator)

    def state_dict(self):
        return {"cursor": self.cursor}

    def load_state_dict(self, state):
        self.cursor = state["cursor"]


def may_go_on(folder, iteration):
    """Waits; False at the end."""
    while True:
        try:
            with open(os.path.join(folder, "until")) as file:
                words = file.read().split()
        except FileNotFoundError:
            words = ["0"]
        if iteration < int(words[0]):
            return True
        if words[1:] == ["last"]:
            return False
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--parameters", type=int, required=True)
    parser.add_argument("--compute-ms", type=float, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    world = World.from_environment()
    torch.manual_seed(1)
    model = torch.nn.Linear(options.parameters, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7, momentum=0.9)
    data = Data(world.rank, options.parameters)
    training = Migratable(model, optimizer, world, state={"data": data}, reducer="ring")
    training.start()
    with open(os.path.join(options.out, f"rank-{world.rank}.jsonl"), "a", buffering=1) as log:
        while may_go_on(options.out, training.iteration):
            begin = time.monotonic()
            time.sleep(options.compute_ms / 1000)
            loss = (model(data.next()) - 1).square().sum() + 0.01 * torch.rand(())
            loss.backward()
            training.reduce_gradients()
            optimizer.step()
            optimizer.zero_grad()
            ring = training.group.ring
            log.write(json.dumps(
                {"iteration": training.iteration, "loss": loss.item().hex(), "begin": begin,
                 "pid": os.getpid(), "node": os.environ.get("SLURMD_NODENAME", ""),
                 "from": ring._next.getsockname(), "to": ring.to}) + "\n")
            training.step()  # may be the end of this process
            pause = training.last_pause
            training.last_pause = None
            end = pause["at"] if pause else time.monotonic()
            log.write(json.dumps({"seconds": end - begin}) + "\n")
    with open(os.path.join(options.out, f"rank-{world.rank}.done"), "w") as out:
        out.write(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest())
    training.close()


if __name__ == "__main__":
    main()
