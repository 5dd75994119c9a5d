"""Trains the small GPT twice with four ranks, once undisturbed and once with moves of two ranks, and
shows that the losses are the same, bit by bit.

    python3 examples/training/move.py [--out FOLDER]
"""

import argparse
import os
import sys
import tempfile

try:
    from job import Job
    from local_agent import LocalAgent
except ImportError as missing:
    print(f"{missing}: see README.md")
    sys.exit(77)

RANKS = 4
ITERATIONS = 60
MOVES = ((10, 3), (30, 1))  # from about which iteration on, which rank


def run(out, moves):
    os.makedirs(out, exist_ok=True)
    agent = LocalAgent(os.path.join(out, "agent.sock"))
    gates = [str(iteration) for iteration, _ in moves]
    job = Job(RANKS, out, agent.path, "--iterations", str(ITERATIONS), "--gates", *gates)
    try:
        agent.wait_for_workers(RANKS)
        for iteration, rank in moves:
            # The job waits here so that the example looks alike on any machine.
            times, process = agent.move(rank, f"move-{rank}",
                                        asked=lambda at=iteration: job.open_gate(at))
            job.add(process)
            pause = sum(times[phase] for phase in ("pause", "copy", "restore", "switch"))
            print(f"rank {rank} moved: {pause * 1000:.0f} ms from the call to pause to the first "
                  "iteration on its new place")
        job.wait()
    finally:
        job.kill()
        agent.close()
    return job


def curves(plain, moved, path):
    """Both loss curves of rank 0 as SVG: the unmoved one wide and pale, the other on top."""
    values = [[float.fromhex(each["loss"]) for each in job.losses(0)] for job in (plain, moved)]
    low, high = min(map(min, values)), max(map(max, values))

    def line(losses, style):
        points = " ".join(
            f"{40 + 540 * i / (len(losses) - 1):.1f},{20 + 220 * (high - loss) / (high - low):.1f}"
            for i, loss in enumerate(losses))
        return f'<polyline points="{points}" fill="none" {style}/>'

    marks = "".join(
        f'<line x1="{40 + 540 * at / (ITERATIONS - 1):.1f}" x2="{40 + 540 * at / (ITERATIONS - 1):.1f}"'
        f' y1="20" y2="240" stroke="#999" stroke-dasharray="3"/><text x="'
        f'{44 + 540 * at / (ITERATIONS - 1):.1f}" y="32">rank {rank} moves</text>'
        for at, rank in MOVES)
    with open(path, "w") as file:
        file.write(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 270" font-family="sans-serif" '
            'font-size="11"><rect width="600" height="270" fill="white"/>' + marks
            + line(values[0], 'stroke="#9ecae1" stroke-width="6"')
            + line(values[1], 'stroke="#08306b" stroke-width="1.5"')
            + f'<text x="40" y="258">iterations 0 to {ITERATIONS - 1}; loss of rank 0 from {high:.3f} '
            f'to {low:.3f}; pale: never moved, dark: moved</text></svg>')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="folder for logs and loss.svg (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = options.out or scratch
        plain = run(os.path.join(out, "plain"), ())
        moved = run(os.path.join(out, "moved"), MOVES)
        for rank in range(RANKS):
            a = [(each["iteration"], each["loss"]) for each in plain.losses(rank)]
            b = [(each["iteration"], each["loss"]) for each in moved.losses(rank)]
            if a != b or plain.state(rank) != moved.state(rank):
                print(f"rank {rank} differs")
                return 1
        print(f"{RANKS} ranks, {ITERATIONS} iterations: all losses, parameters, moments, generators "
              "and cursors are equal, bit by bit")
        if options.out:
            curves(plain, moved, os.path.join(out, "loss.svg"))
            print(f"curves: {os.path.join(out, 'loss.svg')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
