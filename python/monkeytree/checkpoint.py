"""torch.distributed.checkpoint over arenas and their transports: what a job saves goes from memory to
memory, by way of a staging server, and no file is written.

    place = Staging(endpoint, "job-4711")
    save_state_dict(state, storage_writer=ArenaWriter(place))     # torch 2.x: dcp.save(...)
    load_state_dict(state, storage_reader=ArenaReader(place))
    place.clear()

One class serves torch 1.13 (torch.distributed._shard.checkpoint) and 2.x.
"""

import dataclasses
import io
import pickle

import torch

from ._state import Arena, StagingClient, StateError


def _import():
    """The module of this version of torch."""
    try:
        import torch.distributed.checkpoint as module
        return module
    except ImportError:
        pass
    # torch 1.13 has a class whose instances are defaults: Python 3.11 wants such a class to hash.
    original = dataclasses.dataclass

    def hashing(cls=None, **options):
        if cls is not None and cls.__name__ == "TensorProperties":
            options["unsafe_hash"] = True
        return original(cls, **options)

    dataclasses.dataclass = hashing
    try:
        import torch.distributed._shard.checkpoint as module
    finally:
        dataclasses.dataclass = original
    return module


dcp = _import()
try:
    from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
    from torch.distributed.checkpoint.storage import WriteResult
except ImportError:
    from torch.distributed._shard.checkpoint.planner import LoadItemType, WriteItemType
    from torch.distributed._shard.checkpoint.storage import WriteResult



class Staging:
    """Named arenas on a staging server."""

    def __init__(self, endpoint, name, access="", timeout=600.0):
        self._client = StagingClient(endpoint, access)
        self._name = name
        self._timeout = timeout

    def put(self, part, arena):
        self.drop(part)  # of an earlier save
        self._client.put(f"{self._name}:{part}", arena, timeout=self._timeout)

    def get(self, part, layout):
        """The arena of this part and layout, or None."""
        arena = Arena.create(layout)
        try:
            self._client.get(f"{self._name}:{part}", arena, timeout=self._timeout)
        except StateError as error:
            if error.code == "NOT_FOUND":
                return None
            raise
        return arena

    def drop(self, part):
        try:
            self._client.confirm(f"{self._name}:{part}")
        except StateError as error:
            if error.code != "NOT_FOUND":
                raise

    def clear(self):
        """Gives back all memory of the checkpoint."""
        _clear(self)


def _clear(place):
    found = _metadata_of(place)
    if found is None:
        return
    for part in found.storage_data["layouts"]:
        place.drop(f"rank-{part}")
    for size in _METADATA_BYTES:
        place.drop(f"metadata-{size}")


class Memory:
    """The same within one process."""

    def __init__(self):
        self._arenas = {}

    def put(self, part, arena):
        copy = Arena.create(arena.layout)
        for name, size, _ in arena.layout:
            memoryview(copy.buffer(name))[:] = memoryview(arena.buffer(name))
        self._arenas[part] = copy

    def get(self, part, layout):
        found = self._arenas.get(part)
        return found if found is not None and found.layout == layout else None

    def drop(self, part):
        self._arenas.pop(part, None)

    def clear(self):
        self._arenas.clear()


# What a reader looks for before it knows any layout: one buffer of one of these sizes.
_METADATA_BYTES = tuple(64 << 10 + 2 * i for i in range(8))


def _metadata_layout(size):
    return [("metadata", size, 64)]


def _metadata_of(place):
    for size in _METADATA_BYTES:
        arena = place.get(f"metadata-{size}", _metadata_layout(size))
        if arena is not None:
            view = memoryview(arena.buffer("metadata"))
            # The bytes are those of a process of the same job and user.
            return pickle.loads(view[8:8 + int.from_bytes(view[:8], "little")])
    return None


def _done(value):
    future = torch.futures.Future()
    future.set_result(value)
    return future


def _view(arena, name, like_dtype, sizes):
    if not all(sizes):
        return torch.empty(sizes, dtype=like_dtype)
    return torch.frombuffer(arena.buffer(name), dtype=like_dtype).view(sizes)


class ArenaWriter(dcp.StorageWriter):
    """Gathers what a rank saves in an arena, which is kept for the next save of the same layout, and
    puts it at `place`."""

    def __init__(self, place):
        super().__init__()
        self._place = place
        self._arena = None
        self._epoch = 0

    # torch 1.13 calls the first, 2.x the others.
    def init(self, is_coordinator):
        pass

    def set_up_storage_writer(self, is_coordinator, *arguments, **options):
        pass

    def reset(self, checkpoint_id=None):
        pass

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True

    def storage_meta(self):
        return None

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return [dataclasses.replace(plan, storage_data=i) for i, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        found = []
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                data = data.getbuffer()
                found.append((item, data, len(data)))
            else:
                data = data.detach()
                found.append((item, data, data.numel() * data.element_size()))
        layout = [(str(i), size, 64) for i, (_, _, size) in enumerate(found)]
        if self._arena is None or self._arena.layout != layout:
            self._arena = Arena.create(layout)
        self._arena.begin_epoch()
        results = []
        for i, (item, data, size) in enumerate(found):
            if item.type == WriteItemType.BYTE_IO:
                memoryview(self._arena.buffer(str(i)))[:] = data
                stored = (plan.storage_data, str(i), None, None)
            else:
                if size > 0:
                    _view(self._arena, str(i), data.dtype, data.shape).copy_(data)
                stored = (plan.storage_data, str(i), data.dtype, tuple(data.shape))
            results.append(WriteResult(index=item.index, size_in_bytes=size, storage_data=stored))
        self._epoch += 1
        self._arena.commit(self._epoch, checksums=False)
        self._place.put(f"rank-{plan.storage_data}", self._arena)
        return _done(results)

    def finish(self, metadata, results):
        entries, layouts = {}, {}
        for rank_results in results:
            for result in rank_results:
                entries[result.index] = result.storage_data
                part, name, _, _ = result.storage_data
                layouts.setdefault(part, []).append((name, result.size_in_bytes, 64))
        metadata.storage_data = {"entries": entries, "layouts": layouts}
        blob = pickle.dumps(metadata, protocol=4)
        size = next((each for each in _METADATA_BYTES if len(blob) + 8 <= each), None)
        if size is None:
            raise ValueError(f"the checkpoint's metadata take {len(blob)} bytes: too many")
        arena = Arena.create(_metadata_layout(size))
        view = memoryview(arena.buffer("metadata"))
        view[:8] = len(blob).to_bytes(8, "little")
        view[8:8 + len(blob)] = blob
        arena.commit(self._epoch, checksums=False)
        for each in _METADATA_BYTES:
            self._place.drop(f"metadata-{each}")
        self._place.put(f"metadata-{size}", arena)


class ArenaReader(dcp.StorageReader):
    """Gets the arenas that hold what this rank loads, and copies it out."""

    def __init__(self, place):
        super().__init__()
        self._place = place
        self._stored = None

    def init(self, metadata, is_coordinator):
        self._stored = metadata.storage_data

    def set_up_storage_reader(self, metadata, is_coordinator, *arguments, **options):
        self._stored = metadata.storage_data

    def reset(self, checkpoint_id=None):
        self._stored = None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True

    def read_metadata(self, *arguments, **options):
        found = _metadata_of(self._place)
        if found is not None:
            return found
        raise FileNotFoundError("no checkpoint is held there")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        parts = {}
        for item in plan.items:
            parts.setdefault(self._stored["entries"][item.storage_index][0], []).append(item)
        for part, items in sorted(parts.items()):
            arena = self._place.get(f"rank-{part}", self._stored["layouts"][part])
            if arena is None:
                raise FileNotFoundError(f"the state of rank {part} is not held there")
            for item in items:
                self._take(arena, item, planner)
        return _done(None)

    def _take(self, arena, item, planner):
        _, name, dtype, shape = self._stored["entries"][item.storage_index]
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(bytes(memoryview(arena.buffer(name)))))
            return
        stored = _view(arena, name, dtype, shape)
        for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
            stored = stored.narrow(dim, start, length)
        target = planner.resolve_tensor(item).detach()
        target.copy_(stored)
        planner.commit_tensor(item, target)
