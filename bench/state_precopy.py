"""What a copy made while training goes on would be worth: the share of a training state's chunks of
1 MiB that are still the same one iteration later, by optimiser.

    PYTHONPATH=build/release/python OMP_NUM_THREADS=1 /usr/bin/python3 bench/state_precopy.py [--smoke]

A GPT of some 30 million parameters, a third of them in its embedding and head, after a few
iterations. "frozen": only the last quarter of the blocks and the head are trained, as in fine-tuning.
"""

import argparse
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/training"))
import train  # noqa: E402

CHUNK = 1 << 20
ROW = "{:24} {:>12} {:>18} {:>18}"


def tensors(model, optimizer):
    """All that a move carries."""
    for tensor in list(model.parameters()) + list(model.buffers()):
        yield tensor.data
    for entry in optimizer.state.values():
        for value in entry.values():
            if torch.is_tensor(value):
                yield value


def unchanged(before, after):
    """Bytes in all, and bytes of chunks that are the same."""
    size = same = 0
    for a, b in zip(before, after):
        a, b = (each.reshape(-1).view(torch.uint8) if each.dim() else
                each.reshape(1).view(torch.uint8) for each in (a, b))
        for at in range(0, a.numel(), CHUNK):
            piece = a[at:at + CHUNK]
            size += piece.numel()
            if torch.equal(piece, b[at:at + CHUNK]):
                same += piece.numel()
    return size, same


def measure(name, make, frozen, options, iterations):
    torch.manual_seed(1)
    model = train.Gpt(options.words, options.width, options.layers, 4, options.length, 0.1)
    if frozen:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for part in [*model.blocks[options.layers * 3 // 4:], model.head]:
            for parameter in part.parameters():
                parameter.requires_grad_(True)
    optimizer = make([each for each in model.parameters() if each.requires_grad])
    data = train.Data(0, options.words, options.length, options.batch)

    def step():
        tokens, wanted = data.next()
        logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(iterations):
        step()
    before = [each.clone() for each in tensors(model, optimizer)]
    step()
    size, same = unchanged(before, list(tensors(model, optimizer)))
    print(ROW.format(name, f"{size / 1e6:.0f} MB", f"{100 * same / size:.1f} %",
                     f"{size / max(size - same, 1):.2f} times"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a small model")
    small = parser.parse_args().smoke
    words = ["--out", ".", "--batch", "1", "--length", "16", "--layers", "8"]
    words += ["--words", "512", "--width", "64"] if small else ["--words", "8192", "--width", "512"]
    options = train.arguments(words)
    torch.set_num_threads(1)
    print(ROW.format("optimiser", "state", "chunks unchanged", "a shorter copy"))
    makes = {"AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3),
             "Adam": lambda p: torch.optim.Adam(p, lr=1e-3),
             "SGD with momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9)}
    for name, make in makes.items():
        measure(name, make, False, options, 3)
        measure(name + ", frozen", make, True, options, 3)


if __name__ == "__main__":
    main()
