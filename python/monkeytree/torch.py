"""The hook for PyTorch: a training process that can be moved between two iterations.

    world = World.from_environment()
    training = Migratable(model, optimizer, world, schedulers=[scheduler], state={"data": data})
    training.start()                       # a successor gets its state here
    while training.iteration < total:
        loss = ...; loss.backward()
        training.reduce_gradients()
        optimizer.step(); scheduler.step(); optimizer.zero_grad()
        training.step()                    # may wait; ends the process once its successor runs
"""

import hashlib
import os
import pickle
import random
import sys
import threading
import time

import torch

from ._state import Arena
from .collectives import Reducer, World, rank_groups  # noqa: F401
from .worker import Worker

_LENGTH = 8
_AGENT_S = 5  # to wait for the agent's first word, where there is an agent
# For a successor, of each rank of the worker: the bytes that its objects have in the arena.
_OBJECT_BYTES = "MONKEYTREE_OBJECT_BYTES"


class ShardedOptimizer:
    """ZeRO's first stage: each rank keeps the optimiser's state of its share of the parameters.

    After its step each rank broadcasts the parameters of its share. Which rank owns which
    parameter depends on their sizes and the number of ranks only.
    """

    def __init__(self, parameters, make, world):
        self.parameters = list(parameters)
        self._rank = world.rank
        loads = [0] * world.size
        self.owned = [[] for _ in range(world.size)]
        by_size = sorted(range(len(self.parameters)), key=lambda i: -self.parameters[i].numel())
        for index in by_size:
            owner = loads.index(min(loads))
            loads[owner] += self.parameters[index].numel()
            self.owned[owner].append(self.parameters[index])
        if not all(self.owned):
            raise ValueError(f"{len(self.parameters)} parameters cannot be shared by {world.size} "
                             "ranks: each needs at least one")
        self.local = make(self.owned[world.rank])
        self.group = None  # of the generation; set by Migratable

    @property
    def param_groups(self):
        return self.local.param_groups

    def zero_grad(self, *arguments, **options):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        self.local.step()
        for owner, parameters in enumerate(self.owned):
            flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
            self.group.broadcast(flat, owner)
            at = 0
            for parameter in parameters:
                if owner != self._rank:
                    parameter.copy_(flat[at:at + parameter.numel()].view_as(parameter))
                at += parameter.numel()


def _materialise(optimizer):
    """Makes the state that the optimiser would make in its first step, so that it can live in the
    arena from the start. Known for optimisers whose state begins as zeros."""
    known = (torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.RAdam,
             torch.optim.RMSprop, torch.optim.SGD, torch.optim.Adagrad)
    for group in optimizer.param_groups:
        settings = {key: value for key, value in group.items() if key != "params"}
        for parameter in group["params"]:
            if optimizer.state.get(parameter):
                continue
            if type(optimizer) not in known or settings.get("dampening", 0) != 0:
                raise ValueError(
                    f"the state of {type(optimizer).__name__} is made in its first step and does "
                    "not begin as zeros: do one step before making the Migratable")
            twin = torch.zeros_like(parameter, requires_grad=True)
            twin.grad = torch.zeros_like(twin)
            trial = type(optimizer)([{**settings, "params": [twin]}], lr=settings["lr"])
            trial.step()
            for key, value in trial.state[twin].items():
                if value is not None:
                    optimizer.state[parameter][key] = (
                        torch.zeros_like(value) if torch.is_tensor(value) else type(value)(0))


def _bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


class Migratable:
    """A model, its optimiser and all else that training goes on from, in an arena.

    Tensors of the CPU live in the arena; those of other devices are copied there when the worker
    pauses. `state` holds further objects with state_dict() and load_state_dict(), such as a data
    cursor. Numbers, schedulers and generators of random numbers travel as one object, for which
    `object_bytes` are kept, or twice what it takes at first where that is more. Where it has grown
    beyond that, no migration can stop the job, and training goes on.

    Bit-identity with a run that never moves needs sums in an order that does not change with the
    placement: `reducer="ordered"`, by the library's messages between all ranks, or
    `reducer="ring"`, by connections of our own from each rank to the next, which keep to the uplinks
    that the controller gives them. `reducer="library"`, its all-reduce, and models wrapped in
    DistributedDataParallel are refused unless `may_differ`.

    Where `world` has groups, gradients are reduced within those of kind `replicas`, whose ranks hold
    the same parameters; the others are the model's to use (`training.group.groups`).
    """

    def __init__(self, model, optimizer, world, *, schedulers=(), state=None, reducer="ordered",
                 may_differ=False, object_bytes=256 << 10, job=None, group=None, agent=None,
                 replicas="data"):
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            if not may_differ:
                raise ValueError(
                    "DistributedDataParallel rebuilds its buckets after the first backward pass of "
                    "a process, so sums after a move differ: give the plain model and call "
                    "reduce_gradients(), or pass may_differ=True")
            model = model.module
        if reducer not in ("ordered", "ring", "library"):
            raise ValueError(f"reducer {reducer!r}: expected 'ordered', 'ring' or 'library'")
        if reducer == "library" and not may_differ:
            raise ValueError("the library chooses its order of addition, so sums after a move may "
                             "differ: use reducer='ring' or 'ordered', or pass may_differ=True")
        if world.groups and replicas not in world.groups:
            raise ValueError(f"the world has no groups {replicas!r}, only {sorted(world.groups)}")
        if world.groups and isinstance(optimizer, ShardedOptimizer):
            raise ValueError("ShardedOptimizer shares by all ranks: not with groups")
        self.model = model
        self.optimizer = optimizer
        self.world = world
        self._replicas_kind = replicas
        # Whose groups are rings, as of World.group().
        self._ring = None if reducer != "ring" else replicas if world.groups else ""
        self.iteration = 0
        self.group = None
        self.last_pause = None  # the last pause: when, and seconds to commit, stand still, join
        self._schedulers = list(schedulers)
        self._state = dict(state or {})
        self._reducer = Reducer(model.parameters(), ordered=reducer == "ordered")
        self._word = torch.zeros(1, dtype=torch.int64)
        self._unfit = torch.zeros(1, dtype=torch.int64)
        self._building = {}
        self._lock = threading.Lock()
        self._local = optimizer.local if isinstance(optimizer, ShardedOptimizer) else optimizer
        _materialise(self._local)
        environment = os.environ.get
        who = (job or environment("MONKEYTREE_JOB") or environment("SLURM_JOB_ID") or str(os.getpid()),
               int(environment("MONKEYTREE_GROUP", "0")) if group is None else group,
               int(environment("MONKEYTREE_WORKER", str(world.rank))))
        self._make_arena(object_bytes, who, agent)

    # Where everything lies.

    def _tensors(self):
        """(name, tensor, replace) of all tensors, in an order that is the same in a successor. What
        begins with model/ or optimizer/ is equal in all replicas of this rank (is_replicated)."""
        for name, tensor in self.model.named_parameters():
            yield "model/" + name, tensor.data, self._setter(tensor)
        for name, tensor in self.model.named_buffers():
            yield "buffer/" + name, tensor.data, self._setter(tensor)
        kind = "shard" if isinstance(self.optimizer, ShardedOptimizer) else "optimizer"
        for g, group in enumerate(self._local.param_groups):
            for p, parameter in enumerate(group["params"]):
                state = self._local.state[parameter]
                for key in sorted(state, key=str):
                    if torch.is_tensor(state[key]):
                        yield f"{kind}/{g}/{p}/{key}", state[key], self._entry(state, key)

    @staticmethod
    def _setter(owner):
        def replace(tensor):
            owner.data = tensor
        return replace

    @staticmethod
    def _entry(state, key):
        def replace(tensor):
            state[key] = tensor
        return replace

    def _make_arena(self, object_bytes, who, agent):
        self._object_bytes = self._room(object_bytes)
        found = list(self._tensors())
        specs = [(name, _bytes_of(tensor), 4096 if _bytes_of(tensor) >= 4096 else 64)
                 for name, tensor, _ in found]
        specs.append(("objects", self._object_bytes, 64))
        # All ranks of a successor, before its agent can hear of it: see _build_beside().
        if os.environ.get("MONKEYTREE_SUCCESSOR_OF"):
            self.world.announce_successor(os.environ["MONKEYTREE_SUCCESSOR_OF"])
        if self.world.local is None:
            self._prefix = ""
            self.arena = Arena.create(specs)
            self.worker = Worker(self.arena, *who, path=agent, on_expect=self._build_beside)
        else:
            self._prefix = f"{self.world.local.index}/"
            self.worker = self.world.local.worker(specs, *who, path=agent,
                                                  on_expect=self._build_beside)
            self.arena = self.worker.arena
        sizes = {name: size for name, size, _ in self.arena.layout}
        ranks = range(len(self.world.local.ranks)) if self.world.local else ()
        self.worker.for_successor = {_OBJECT_BYTES: ",".join(
            str(sizes[name]) for name in [f"{each}/objects" for each in ranks] or ["objects"])}
        self.worker.replicas = self._replica_set()
        for name, tensor, replace in found:
            view = self._view(name, tensor)
            view.copy_(tensor)
            if tensor.device.type == "cpu":
                replace(view)

    def _replica_set(self):
        """A name that workers share whose buffers of the model and the optimiser hold the same; "" where
        sums may differ by the place of a rank."""
        if not self._reducer.ordered and self._ring is None:
            return ""
        ranks = self.world.local.ranks if self.world.local else [self.world.rank]
        alike = [next(each for each in self.world.groups[self._replicas_kind] if rank in each)[0]
                 for rank in ranks] if self.world.groups else [0] * len(ranks)
        told = repr((alike, self.arena.layout)).encode()
        return hashlib.sha256(told).hexdigest()[:32]

    def _room(self, object_bytes):
        """Bytes for what is no tensor: the same in a successor, whatever its objects take there."""
        told = os.environ.get(_OBJECT_BYTES)
        if told and os.environ.get("MONKEYTREE_SUCCESSOR_OF"):
            return int(told.split(",")[self.world.local.index if self.world.local else 0])
        try:
            return max(object_bytes, 2 * (len(self._blob()) + _LENGTH))
        except Exception:
            return object_bytes  # start() says it

    def _view(self, name, like):
        """The arena's buffer as a tensor of the same shape, type and strides."""
        if like.numel() == 0:
            return torch.empty_like(like, device="cpu")
        flat = torch.frombuffer(self.arena.buffer(self._prefix + name), dtype=like.dtype)
        dense = like.is_contiguous() or like.permute(
            sorted(range(like.dim()), key=lambda d: -like.stride(d))).is_contiguous()
        return flat.as_strided(like.shape, like.stride()) if dense else flat.view(like.shape)

    def _strays(self):
        """Tensors that do not live in the arena: of other devices, or replaced by the program."""
        for name, tensor, _ in self._tensors():
            view = self._view(name, tensor)
            if view.data_ptr() != tensor.data_ptr():
                yield view, tensor

    # What is no tensor.

    def _objects(self):
        numbers = {}
        for g, group in enumerate(self._local.param_groups):
            for p, parameter in enumerate(group["params"]):
                for key, value in self._local.state[parameter].items():
                    if not torch.is_tensor(value):
                        numbers[g, p, key] = value
        objects = {
            "iteration": self.iteration,
            "groups": [{key: value for key, value in group.items() if key != "params"}
                       for group in self._local.param_groups],
            "numbers": numbers,
            "schedulers": [each.state_dict() for each in self._schedulers],
            "state": {name: each.state_dict() for name, each in self._state.items()},
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
        }
        if torch.cuda.is_available():
            objects["cuda"] = torch.cuda.get_rng_state_all()
        try:
            import numpy

            objects["numpy"] = numpy.random.get_state()
        except ImportError:
            pass
        return objects

    def _blob(self):
        return pickle.dumps(self._objects(), protocol=4)

    def _check_objects(self):
        """Raises ValueError where no move could carry what is no tensor."""
        try:
            needed = len(self._blob()) + _LENGTH
        except Exception as error:
            raise ValueError("schedulers, generators and further state cannot be carried: "
                             f"{type(error).__name__}: {error}") from error
        if needed > self._object_bytes:
            raise ValueError(f"schedulers, generators and further state take {needed} bytes, more "
                             f"than the {self._object_bytes} kept for them: pass object_bytes of "
                             f"{2 * needed} or more")

    def _save(self):
        """Brings into the arena what does not live there. Where that cannot be, gives what this
        rank puts into the maximum by which all agree, and why; otherwise 0 and ""."""
        try:
            with torch.no_grad():
                for view, tensor in self._strays():
                    view.copy_(tensor)
            blob = self._blob()
            needed = len(blob) + _LENGTH
            if needed > self._object_bytes:
                return (min(needed, 1 << 40) << 20) + self.world.rank + 1, ""
            view = memoryview(self.arena.buffer(self._prefix + "objects"))
            view[:_LENGTH] = len(blob).to_bytes(_LENGTH, "little")
            view[_LENGTH:needed] = blob
            return 0, ""
        except Exception as error:  # of a state_dict() of the program's, for one
            why = f"state of rank {self.world.rank} cannot be saved: {type(error).__name__}: {error}"
            print(f"monkeytree: {why}", file=sys.stderr)
            return self.world.rank + 1, why

    def _why_nobody_pauses(self):
        """Saves, and agrees with all ranks: "" where all can pause, otherwise why they do not."""
        self._unfit[0], why = self._save()
        self.group.maximum(self._unfit)
        unfit = int(self._unfit[0])
        if unfit == 0:
            return ""
        needed, rank = unfit >> 20, (unfit & ((1 << 20) - 1)) - 1
        if needed:
            return (f"schedulers, generators and further state of rank {rank} have grown to {needed} "
                    "bytes, more than is kept for them: pass a larger object_bytes")
        return why or f"state of rank {rank} cannot be saved: its standard error says why"

    def _load_objects(self):
        view = memoryview(self.arena.buffer(self._prefix + "objects"))
        length = int.from_bytes(view[:_LENGTH], "little")
        # The bytes are those of a process of the same job and user.
        objects = pickle.loads(view[_LENGTH:_LENGTH + length])
        self.iteration = objects["iteration"]
        for group, values in zip(self._local.param_groups, objects["groups"]):
            group.update(values)
        for (g, p, key), value in objects["numbers"].items():
            parameter = self._local.param_groups[g]["params"][p]
            self._local.state[parameter][key] = value
        for each, values in zip(self._schedulers, objects["schedulers"]):
            each.load_state_dict(values)
        for name, values in objects["state"].items():
            self._state[name].load_state_dict(values)
        torch.set_rng_state(objects["torch"])
        random.setstate(objects["python"])
        if "cuda" in objects:
            torch.cuda.set_rng_state_all(objects["cuda"])
        if "numpy" in objects:
            import numpy

            numpy.random.set_state(objects["numpy"])

    # Generations.

    def _build_beside(self, generation):
        """The agent's hint. The leaving worker hears it too, and must not take the place of its
        successor in the new group."""
        def build():
            try:
                if self.world.may_build_beside(generation):
                    self._build(generation)
            except RuntimeError:
                pass  # it is built, or fails, when its turn comes

        threading.Thread(target=build, daemon=True).start()

    def _build(self, generation):
        """Begins to build a generation's group beside the running one."""
        with self._lock:
            if generation in self._building:
                return self._building[generation]
            result = {}

            def build():
                try:
                    result["group"] = self.world.group(generation, self.worker.address, self._ring)
                except RuntimeError as error:
                    result["error"] = error

            thread = threading.Thread(target=build, daemon=True)
            self._building[generation] = (thread, result)
            thread.start()
            return thread, result

    def _join(self, generation):
        thread, result = self._build(generation)
        thread.join()
        with self._lock:
            self._building.pop(generation, None)
        if "error" in result:
            raise result["error"]
        if self.group and self._replicas().ring:
            self._replicas().ring.close()
        self.group = result["group"]
        self._replicas_joined()
        if isinstance(self.optimizer, ShardedOptimizer):
            self.optimizer.group = self.group

    def _replicas_joined(self):
        """Asks the agent for the source port of the ring's connection, in place of the last one's.
        Ranks that share a worker are not asked for: their connections take any port."""
        ring = self._replicas().ring
        if ring and self.world.local is None:
            self.worker.set_flows([ring.to])

    def _keep_to_uplink(self):
        """The ring's connection is made anew where the agent has found a port for its route."""
        ring = self._replicas().ring
        if ring and self.world.local is None:
            ring.leave_from(self.worker.source_port(ring.to))

    # The loop.

    def start(self):
        """Joins the job. A successor waits for its state and then for its turn; the first workers
        take parameters and buffers from the first of their replicas. Raises ValueError where what is
        no tensor has no room in the arena, or cannot be carried."""
        if not self.worker.successor_of:
            self._check_objects()
        # The agent knows the address that reaches the fabric, which a ring should have.
        self.worker.start(0 if self._ring is None else _AGENT_S)
        if self.worker.successor_of:
            self._build(self.worker.successor_of)
            self.worker.wait_for_state()
            with torch.no_grad():
                for view, tensor in self._strays():
                    tensor.copy_(view)
            self._load_objects()
            generation = self.worker.restored(self.iteration)
            self.worker.uncommit()
            self._join(generation)
            return
        self._join("")
        with torch.no_grad():
            for tensor in list(self.model.parameters()) + list(self.model.buffers()):
                self._replicas().broadcast(tensor.data, 0)

    def _replicas(self):
        return self.group.groups[self._replicas_kind] if self.world.groups else self.group

    def reduce_gradients(self):
        """The mean of the gradients of all ranks that hold the same parameters, in .grad."""
        self._reducer.reduce(self._replicas())

    def step(self):
        """The boundary of an iteration. Where the workers have agreed to pause, waits until the
        job goes on; raises Released (a SystemExit) where it goes on without this process."""
        self.iteration += 1
        self._word[0] = self.worker.word()
        self.group.maximum(self._word)
        word = int(self._word[0])
        start = time.monotonic()
        # All ranks see the same word, so all are here, whatever they know of cancels.
        refusal = self._why_nobody_pauses() if word != 0 else ""
        if not self.worker.boundary(self.iteration, word, refusal):
            self._keep_to_uplink()
            return
        self.worker.commit(self.iteration)
        committed = time.monotonic()
        generation = self.worker.paused()
        told = time.monotonic()
        self.worker.uncommit()
        if generation is not None:
            self._join(generation)
        joined = time.monotonic()
        self.last_pause = {"at": start, "commit": committed - start, "stand": told - committed,
                           "join": joined - told}

    def close(self):
        """The job is done."""
        self.worker.close()
