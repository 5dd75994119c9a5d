#!/usr/bin/env python3
"""Writes a made-up Slurm log and its topology: `make.py [--jobs N] [--racks N] [--seed N] [DIR]`.

Sixteen racks of eight nodes of eight GPUs. Jobs arrive by day and by night at different rates and
take the first free nodes, as Slurm's best-fit does where nobody asks for a switch; what has been
freed lies scattered, so jobs come to cross racks. Rows as `sacct -a -P` prints them: without -X,
so steps stand among the jobs; some jobs are cancelled before they start, some compute on CPUs, a
few still run, one node has left the cluster since. No row is of a real job.
"""

import argparse
import heapq
import random
import time
from pathlib import Path

GPUS = 8
NODES_PER_RACK = 8
SIZES = [(1, 46), (2, 17), (3, 4), (4, 13), (6, 5), (8, 8), (12, 3), (16, 4)]
START = 1709280000  # 2024-03-01 08:00
USERS = ["ann", "bob", "chen", "dora", "emil", "fay"]
NAMES = ["llama", "pretrain", "finetune", "vit", "eval", "moe"]


def stamp(t):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t))


def elapsed(s):
    days, s = divmod(s, 86400)
    text = f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}"
    return f"{days}-{text}" if days else text


def node(n):
    return f"n{n + 1:03}"


def hostlist(nodes):
    parts, run = [], []
    for n in nodes + [None]:
        if run and (n is None or n != run[-1] + 1):
            first, last = run[0] + 1, run[-1] + 1
            parts.append(f"{first:03}" if first == last else f"{first:03}-{last:03}")
            run = []
        if n is not None:
            run.append(n)
    return f"n{parts[0]}" if len(nodes) == 1 else f"n[{','.join(parts)}]"


def comment(rng, size):
    draw = rng.random()
    if size >= 4 and draw < 0.3:
        return f"dp={size * GPUS // 4},tp=2,pp=2" if size % 2 == 0 else "rings=2"
    if size >= 2 and draw < 0.45:
        return "rings=2"
    return "monkeytree=off" if draw > 0.97 else ""


class Cluster:
    def __init__(self, count):
        self.free = set(range(count))
        self.ends = []

    def finish(self, now):
        while self.ends and self.ends[0][0] <= now:
            self.free.update(heapq.heappop(self.ends)[2])

    def take(self, size):
        """The rack with the least room that holds the job, else the lowest free nodes."""
        racks = {}
        for n in sorted(self.free):
            racks.setdefault(n // NODES_PER_RACK, []).append(n)
        fitting = [r for r in racks.values() if len(r) >= size]
        nodes = min(fitting, key=len)[:size] if fitting else sorted(self.free)[:size]
        self.free.difference_update(nodes)
        return nodes


def rows(rng, jobs, node_count, load):
    cluster = Cluster(node_count)
    sizes, weights = zip(*SIZES)
    mean_size = sum(s * w for s, w in SIZES) / sum(weights)
    mean_run = 14 * 3600
    gap = mean_size * mean_run / (load * node_count)
    now = submit = START
    last = START + int(jobs * gap)
    serial = 0
    for i in range(jobs):
        hour = (submit // 3600) % 24
        submit += max(1, int(rng.expovariate(1 / gap) * (0.7 if 8 <= hour < 19 else 1.5)))
        job = 40000 + i
        size = rng.choices(sizes, weights)[0]
        run = max(60, int(rng.lognormvariate(0, 1.1) * mean_run / 1.83))
        user, name = rng.choice(USERS), rng.choice(NAMES)
        if rng.random() < 0.02:
            yield [job, name, user, "gpu", stamp(submit), "Unknown", stamp(submit + 900),
                   "00:00:00", f"CANCELLED by {1000 + i}", 0, "", "None assigned", ""]
            continue
        now = max(now, submit)
        cluster.finish(now)
        while len(cluster.free) < size:
            now = cluster.ends[0][0]
            cluster.finish(now)
        nodes = cluster.take(size)
        gpus = size * GPUS if size > 1 or rng.random() < 0.7 else rng.choice([1, 2, 4])
        tres = f"billing={64 * size},cpu={64 * size},gres/gpu={gpus},mem={size}T,node={size}"
        if rng.random() < 0.03:
            tres = f"billing={64 * size},cpu={64 * size},mem={size}T,node={size}"
        end = now + run
        serial += 1
        heapq.heappush(cluster.ends, (end, serial, nodes))
        running = end > last
        listed = hostlist(nodes)
        if serial == jobs // 9:
            listed = "old1"
        state = "RUNNING" if running else rng.choices(
            ["COMPLETED", "FAILED", "TIMEOUT", f"CANCELLED by {1000 + i}"], [80, 8, 6, 6])[0]
        shown = last - now if running else run
        yield [job, name, user, "gpu", stamp(submit), stamp(now), "Unknown" if running else
               stamp(end), elapsed(max(0, shown)), state, size, tres, listed, comment(rng, size)]
        if serial % 10 == 0:
            yield [f"{job}.batch", "batch", "", "", stamp(now), stamp(now), "Unknown" if running
                   else stamp(end), elapsed(max(0, shown)), state, 1, "cpu=64,mem=1T,node=1",
                   node(nodes[0]), ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).parent))
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--racks", type=int, default=16)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    racks = arguments.racks
    with open(folder / "sacct.txt", "w", encoding="utf-8") as out:
        out.write("JobID|JobName|User|Partition|Submit|Start|End|Elapsed|State|AllocNodes|"
                  "AllocTRES|NodeList|Comment\n")
        for row in rows(rng, arguments.jobs, racks * NODES_PER_RACK, arguments.load):
            out.write("|".join(map(str, row)) + "\n")
    with open(folder / "topology.conf", "w", encoding="utf-8") as out:
        for r in range(racks):
            first = r * NODES_PER_RACK + 1
            out.write(f"SwitchName=rack{r + 1:02} Nodes=n[{first:03}-"
                      f"{first + NODES_PER_RACK - 1:03}]\n")
        out.write(f"SwitchName=spine Switches=rack[01-{racks:02}]\n")


if __name__ == "__main__":
    main()
