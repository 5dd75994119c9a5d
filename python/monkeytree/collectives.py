"""Process groups that are built beside a running one, and sums that do not depend on the ring."""

import datetime

import torch
import torch.distributed as dist

from .ring import Ring


def rank_groups(tensor, pipeline, data):
    """The lists of ranks of a grid in which the tensor-parallel index runs fastest, then the
    pipeline's stage, then the data-parallel replica: {"tensor": [[0, 1], …], "pipeline": …, "data": …}.
    """
    def rank(t, p, d):
        return t + tensor * (p + pipeline * d)

    def lists(outer, inner, at):
        return [[at(o, i) for i in range(inner)] for o in outer]

    tp = [(p, d) for d in range(data) for p in range(pipeline)]
    pp = [(t, d) for d in range(data) for t in range(tensor)]
    dp = [(t, p) for p in range(pipeline) for t in range(tensor)]
    return {"tensor": lists(tp, tensor, lambda o, t: rank(t, o[0], o[1])),
            "pipeline": lists(pp, pipeline, lambda o, p: rank(o[0], p, o[1])),
            "data": lists(dp, data, lambda o, d: rank(o[0], o[1], d))}


def tcp_store(address, port, serve=False, timeout_s=300.0):
    """The store where ranks meet, served (at `port`, 0: any) or called. By the plain sockets that every
    version and build of torch has."""
    arguments = address, port, None, serve, datetime.timedelta(seconds=timeout_s), False
    try:
        return dist.TCPStore(*arguments, use_libuv=False)
    except TypeError:  # before 2.1
        return dist.TCPStore(*arguments)


class World:
    """Logical ranks and the store where they meet. Ranks stay; hosts change under them."""

    def __init__(self, rank, size, address, port, timeout_s=300.0, groups=None, local=None):
        """`groups`: lists of ranks by kind, such as those of rank_groups(); every rank in exactly one
        list of each kind. `local`: the LocalRanks of a worker of several ranks."""
        self.rank = rank
        self.size = size
        self.local = local
        self.groups = dict(groups or {})
        for kind, lists in self.groups.items():
            if sorted(each for ranks in lists for each in ranks) != list(range(size)):
                raise ValueError(f"groups {kind!r} do not hold each of {size} ranks once")
        self._address = address
        self._port = port
        self._timeout_s = timeout_s

    @staticmethod
    def from_environment(groups=None):
        """RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the launcher, which keeps the store. With
        MONKEYTREE_RANKS="2,3" in place of RANK the process becomes the first of these ranks and
        starts the others: call this early."""
        import os

        from .local_ranks import LocalRanks

        local = LocalRanks.from_environment()
        return World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]),
                     os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), groups=groups,
                     local=local)

    def _client(self):
        # One of its own each time: waiting in it does not block other users of the store.
        return tcp_store(self._address, self._port, timeout_s=self._timeout_s)

    def announce_successor(self, generation):
        """Says that this process will have its rank in that generation."""
        store = self._client()
        store.add(f"monkeytree/successor/{generation}/{self.rank}", 1)
        store.add(f"monkeytree/successor/{generation}", 1)

    def may_build_beside(self, generation):
        """Whether this process will be of that generation, told before it begins: a successor has
        announced itself, and not for this rank."""
        store = self._client()
        # Adding 0 asks without waiting, in every version of torch.
        return (store.add(f"monkeytree/successor/{generation}", 0) > 0
                and store.add(f"monkeytree/successor/{generation}/{self.rank}", 0) == 0)

    def own(self, kind):
        """The ranks of this rank's group of a kind, in order."""
        return next(ranks for ranks in self.groups[kind] if self.rank in ranks)

    def group(self, generation, device_address="", ring=None):
        """The group of all ranks of a generation, with those of the kinds of `groups` within it;
        returns when all have come. `ring`: the kind whose groups get rings of connections; "": that
        of all ranks."""
        prefix = "monkeytree/" + (generation or "first")
        whole = self._group(prefix, list(range(self.size)), device_address)
        for kind in sorted(self.groups):
            ranks = self.own(kind)
            whole.groups[kind] = self._group(f"{prefix}/{kind}/{ranks[0]}", ranks, device_address)
        if ring is not None:
            ranks = self.own(ring) if ring else list(range(self.size))
            own = whole.groups[ring] if ring else whole
            own.ring = Ring(self._client(), f"{prefix}/{ring}/{ranks[0]}", ranks.index(self.rank),
                            len(ranks), device_address or self._own_address(),
                            self._timeout_s)
        return whole

    def _group(self, prefix, ranks, device_address):
        store = self._client()
        options = dist.ProcessGroupGloo._Options()
        options._timeout = datetime.timedelta(seconds=self._timeout_s)
        if device_address:
            options._devices = [dist.ProcessGroupGloo.create_device(hostname=device_address)]
        else:
            options._devices = [dist.ProcessGroupGloo.create_default_device()] if hasattr(
                dist.ProcessGroupGloo, "create_default_device") else [
                dist.ProcessGroupGloo.create_device(hostname=self._own_address())]
        return Group(dist.ProcessGroupGloo(dist.PrefixStore(prefix, store),
                                           ranks.index(self.rank), len(ranks), options), store)

    def _own_address(self):
        """This host's address on the way to the store."""
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((socket.gethostbyname(self._address), self._port))
            return probe.getsockname()[0]


class Group:
    """The few collectives that training with MonkeyTree needs, in the order they are called."""

    def __init__(self, group, store):
        self._group = group
        self._store = store  # lives as long as the group
        self.groups = {}  # by kind, of the group of all ranks
        self.ring = None

    @property
    def rank(self):
        return self._group.rank()

    @property
    def size(self):
        return self._group.size()

    def maximum(self, tensor):
        if self.ring:
            self.ring.maximum(tensor)
            return
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        self._group.allreduce([tensor], options).wait()

    def sum(self, tensor):
        """An all-reduce: by the ring, where there is one, in an order of addition that never
        changes; otherwise as the library sees fit."""
        if self.ring:
            self.ring.all_reduce(tensor)
        else:
            self._group.allreduce([tensor]).wait()

    def exchange(self, out, given):
        """Piece r of `given` goes to rank r; piece r of `out` comes from it."""
        self._group.alltoall_base(out, given, [], []).wait()

    def gather(self, pieces, own):
        self._group.allgather([pieces], [own]).wait()

    def broadcast(self, tensor, source):
        options = dist.BroadcastOptions()
        options.rootRank = source
        options.rootTensor = 0
        self._group.broadcast([tensor], options).wait()

    def ordered_sum(self, tensor):
        """The sum over all, added in the order of ranks wherever they are."""
        pieces = [torch.empty_like(tensor) for _ in range(self.size)]
        self.gather(pieces, tensor.contiguous())
        tensor.copy_(pieces[0])
        for piece in pieces[1:]:
            tensor.add_(piece)

    def send(self, tensor, to):
        self._group.send([tensor], to, 0).wait()

    def receive(self, tensor, source):
        self._group.recv([tensor], source, 0).wait()

    def barrier(self):
        self._group.barrier().wait()


class Reducer:
    """Means of gradients over all ranks.

    `ordered`: each rank gets its share of the gradients from all, adds them in the order of logical
    ranks, and gives the sum to all. The result does not depend on where ranks are, bit by bit. It
    moves 2 (n − 1) / n of the gradients' bytes a rank, as a ring all-reduce does: no extra traffic,
    but n − 1 messages at once in place of a ring, and memory for one more copy of the gradients.
    Otherwise the sum of the group: by its ring, or the library's all-reduce.
    """

    def __init__(self, parameters, ordered=True):
        self.ordered = ordered
        by_kind = {}
        for parameter in parameters:
            if parameter.requires_grad:
                by_kind.setdefault((parameter.dtype, parameter.device), []).append(parameter)
        self._buckets = [(list(own), [None], [None]) for own in by_kind.values()]

    def _flat(self, bucket, size):
        """The bucket's flat gradients, padded to whole shares, with every .grad a view of them."""
        parameters, flat, views = bucket
        count = sum(parameter.numel() for parameter in parameters)
        padded = (count + size - 1) // size * size
        if flat[0] is None or flat[0].numel() != padded:
            flat[0] = torch.zeros(padded, dtype=parameters[0].dtype, device=parameters[0].device)
            views[0] = []
            at = 0
            for parameter in parameters:
                views[0].append(flat[0][at:at + parameter.numel()].view(parameter.shape))
                at += parameter.numel()
        for parameter, view in zip(parameters, views[0]):
            if parameter.grad is None:
                view.zero_()
            elif parameter.grad.data_ptr() != view.data_ptr():
                view.copy_(parameter.grad)
            parameter.grad = view
        return flat[0]

    def reduce(self, group):
        for bucket in self._buckets:
            flat = self._flat(bucket, group.size)
            if group.size == 1:
                continue
            if not self.ordered:
                group.sum(flat)
                flat.div_(group.size)
                continue
            share = flat.numel() // group.size
            pieces = torch.empty_like(flat)
            group.exchange(pieces, flat)
            pieces = pieces.view(group.size, share)
            total = pieces[0]
            for rank in range(1, group.size):
                total.add_(pieces[rank])
            total.div_(group.size)
            group.gather(list(flat.view(group.size, share)), total.clone())
