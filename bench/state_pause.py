"""The pause of a training job while one rank moves, by phase, beside the way over files, in one run.

    PYTHONPATH=build/release/python OMP_NUM_THREADS=1 python3 bench/state_pause.py [--smoke]

Two ranks of a GPT with AdamW on this machine. The pause is what a rank that stays sees, from the end
of an iteration to the next one's start. The file way: the state of such a model saved to tmpfs within
the pause, then a new process that imports torch, joins the process group, builds the model and loads.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/training"))
from job import Job  # noqa: E402
from local_agent import LocalAgent  # noqa: E402
import train  # noqa: E402
from monkeytree import Arena  # noqa: E402
from monkeytree.collectives import tcp_store  # noqa: E402
from state_files import save_files  # noqa: E402
from state_timeline import draw  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))


def first_buffers(arena, limit=5 << 28):
    """The first buffers of its layout, some 1.3 GB at most, and their share of the whole: room for a
    second copy of a large model's state is not to be had everywhere."""
    layout, size = [], 0
    for each in arena.layout:
        layout.append(each)
        size += each[1]
        if size >= limit:
            break
    return layout, size / arena.payload_bytes


def raw_copy(arena):
    """Seconds of one plain copy between warm mappings of this layout."""
    layout, share = first_buffers(arena)
    target = Arena.create(layout)
    pairs = [(torch.frombuffer(target.buffer(name), dtype=torch.uint8),
              torch.frombuffer(arena.buffer(name), dtype=torch.uint8))
             for name, size, _ in layout if size > 0]

    def once():
        for into, out in pairs:
            into.copy_(out)

    return best_of_three(once) / share


def raw_sockets(arena):
    """Seconds of a plain copy over one loopback connection, into warm memory, in pieces of 1 MiB."""
    layout, share = first_buffers(arena)
    target = Arena.create(layout)
    near, far = tcp_pair()

    def views(of):
        for name, size, _ in layout:
            whole = memoryview(of.buffer(name))
            for at in range(0, size, 1 << 20):
                yield whole[at:at + (1 << 20)]

    def once():
        sending = threading.Thread(target=lambda: [near.sendall(view) for view in views(arena)])
        sending.start()
        for view in views(target):
            got = 0
            while got < len(view):
                got += far.recv_into(view[got:], 0, socket.MSG_WAITALL)
        sending.join()

    with near, far:
        return best_of_three(once) / share


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]


def best_of_three(work):
    best = 1e9
    for _ in range(3):
        start = time.monotonic()
        work()
        best = min(best, time.monotonic() - start)
    return best


def file_way(model_arguments, dcp=False):
    """The phases of a move over files in tmpfs: saved in the pause, then a new process that builds
    the model, loads, and joins the group."""
    argv, sys.argv = sys.argv, ["train", "--out", ".", *model_arguments]
    options = train.arguments()
    sys.argv = argv
    model = train.Gpt(options.words, options.width, options.layers, 4, options.length,
                      options.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    store = tcp_store("127.0.0.1", 0, serve=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        path = os.path.join(scratch, "state")
        start = time.monotonic()
        if dcp:
            save_files(state, path)
        else:
            torch.save(state, path)
        saved = time.monotonic()
        del model, optimizer, state, parameter  # their process ends, so its memory is free
        environment = dict(os.environ)
        process = subprocess.Popen(
            [sys.executable, os.path.join(FOLDER, "state_restart.py"), path, str(store.port),
             *model_arguments], env=environment, stdout=subprocess.PIPE, text=True)
        dist.init_process_group("gloo", store=store, rank=0, world_size=2)
        told = process.communicate(timeout=600)[0]
        dist.destroy_process_group()
    if process.returncode != 0:
        raise RuntimeError("the new process failed")
    started, imported, joined, built, loaded = map(float, told.split())
    how = "DCP FileSystemWriter" if dcp else "torch.save"
    return [("source", f"{how} to tmpfs", 0, saved - start, False),
            ("destination", "start a process, import torch", saved - start, imported - start, False),
            ("destination", "process group", imported - start, joined - start, False),
            ("destination", "build model and optimiser", joined - start, built - start, False),
            ("destination", "load", built - start, loaded - start, False)]


def phases(agent, pause):
    """The spans of one move as rows of a timeline, 0 where the ranks that stay begin to wait."""
    spans = {name: (start, end) for name, start, end in agent.spans}
    # The pause ends with the first boundary of the new generation; what is before it is background.
    zero = pause["at"]
    stand = zero + pause["commit"] + pause["stand"]
    rows = [("source", "objects saved, arena committed", 0, pause["commit"], False)]
    rows.append(("source", "agents hear it", pause["commit"], spans["copy"][0] - zero, False))
    rows.append(("source", "state copied and checked", spans["copy"][0] - zero,
                 spans["copy"][1] - zero, False))
    rows.append(("destination", "objects taken up", spans["restore"][0] - zero,
                 spans["restore"][1] - zero, False))
    rows.append(("other ranks", "told to go on", spans["restore"][1] - zero, stand - zero, False))
    rows.append(("other ranks", "joined the group built beside", stand - zero,
                 stand - zero + pause["join"], False))
    return [row for row in rows if row[3] >= row[2]]


def measure(label, model_arguments, moves, transport, picture=None):
    """Moves rank 1 `moves` times; all figures of this model and transport."""
    with tempfile.TemporaryDirectory() as folder:
        agent = LocalAgent(os.path.join(folder, "agent.sock"), transport)
        gates = [str(2 + 2 * i) for i in range(moves)]
        job = Job(2, os.path.join(folder, "out"), agent.path, "--iterations", str(2 * moves + 4),
                  "--gates", *gates, *model_arguments)
        try:
            agent.wait_for_workers(2, timeout=300)
            arena = agent.workers[0].arena
            raw = raw_copy(arena) if transport == "shm" else raw_sockets(arena)
            size = arena.payload_bytes
            measured = []
            for i in range(moves):
                times, process = agent.move(1, f"m{i}",
                                            asked=lambda at=gates[i]: job.open_gate(at))
                job.add(process)
                pause = job.losses(0, pauses=True)[-1]["pause"]
                whole = pause["commit"] + pause["stand"] + pause["join"]
                goal = 1.5 * raw + 0.05
                print(f"{label} {transport}: {size / 1e6:.0f} MB, plain copy {raw:.3f} s; "
                      f"pause {whole:.3f} s = commit {pause['commit']:.3f} + stand "
                      f"{pause['stand']:.3f} (copy {times['copy']:.3f}, restore "
                      f"{times['restore']:.3f}) + join {pause['join']:.3f}; goal {goal:.3f}",
                      flush=True)
                measured.append((whole, phases(agent, pause)))
            job.wait(600)
        finally:
            job.kill()
            agent.close()
    if transport != "shm":
        return
    whole, moved = sorted(measured, key=lambda each: each[0])[len(measured) // 2]
    rows = file_way(model_arguments)
    report_files(label, rows, whole)
    report_files(label, file_way(model_arguments, dcp=True), whole)
    if picture:
        draw(picture, f"{size / 1e9:.2f} GB, two CPU cores", moved, rows)
        print(f"picture: {picture}")


def report_files(label, rows, pause):
    whole = rows[-1][3]
    print(f"{label} files: " + ", ".join(f"{phase} {end - start:.2f} s"
                                         for _, phase, start, end, _ in rows)
          + f"; together {whole:.2f} s, {whole / pause:.0f} times the median pause", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a small model, one move")
    parser.add_argument("--size", choices=("0.1", "98", "200", "400"), action="append",
                        help="only this model, in millions of parameters; may come again")
    parser.add_argument("--transport", choices=("shm", "tcp"), action="append")
    parser.add_argument("--picture", help="draw the phases of the largest model over shm there")
    options = parser.parse_args()
    few = ("--batch", "1", "--length", "16")
    models = {"0.1": ("--batch", "1"),
              "98": few + ("--words", "8192", "--width", "768", "--layers", "12"),
              "200": few + ("--words", "8192", "--width", "1024", "--layers", "15"),
              "400": few + ("--words", "16384", "--width", "1280", "--layers", "18")}
    sizes = ["0.1"] if options.smoke else options.size or ["0.1", "98", "200"]
    for size in sizes:
        for transport in options.transport or (["shm"] if options.smoke else ["shm", "tcp"]):
            measure(f"{size} M parameters", models[size], 1 if options.smoke else 3, transport,
                    options.picture if size == sizes[-1] else None)


if __name__ == "__main__":
    main()
