#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "simulation/fast_engine.h"
#include "simulation/moving.h"

/// Flows whose rate may change: their way through the network, and global load balancing.
namespace monkeytree {

LeafSpine::Path FastEngine::path_of(const Stream& it) const {
  if (it.job < 0) {
    const Transfer& transfer = transfers_[static_cast<size_t>(it.vertex)];
    return fabric_.path(transfer.from_host, transfer.to_host, it.spine);
  }
  const Job& owner = jobs_[static_cast<size_t>(it.job)];
  const RankPair& pair = owner.program->pairs[static_cast<size_t>(it.pair)];
  return fabric_.path(owner.hosts[static_cast<size_t>(pair.from)],
                      owner.hosts[static_cast<size_t>(pair.to)], it.spine);
}

FastEngine::StreamIndex FastEngine::open_stream(int owner, int vertex, int pair, int64_t bytes,
                                                Time since) {
  StreamIndex index;
  if (spare_streams_.empty()) {
    index = static_cast<StreamIndex>(streams_.size());
    streams_.emplace_back();
  } else {
    index = spare_streams_.back();
    spare_streams_.pop_back();
  }
  Stream& it = stream(index);
  it = Stream();
  it.job = owner;
  it.vertex = vertex;
  it.pair = pair;
  it.left = bytes;
  it.since = since;
  if (pair >= 0) it.spine = job(owner).spines[static_cast<size_t>(pair)];
  if (bytes == 0) it.end = since;
  starting_.push_back(index);
  return index;
}

void FastEngine::close_stream(StreamIndex index) {
  Stream& it = stream(index);
  if (it.id.valid() || it.alone) {
    withdraw(index);
    if (it.id.valid()) network_.remove(it.id);
    if (it.slowed) ++counters_.contended_flows;
    if (sglb_ && it.spine >= 0) {
      const LeafSpine::Path path = path_of(it);
      if (path.size == 4) {
        const FabricShape& shape = options_.fabric;
        sglb_->end(shape.rack_of(path.links[0].value / 2), shape.rack_of(path.links[3].value / 2),
                   it.spine);
        tick_ = std::min(tick_, (now_ + sglb_->rule().tick_us - 1) / sglb_->rule().tick_us *
                                    sglb_->rule().tick_us);
      }
    }
  } else {
    starting_.erase(std::find(starting_.begin(), starting_.end(), index));
  }
  spare_streams_.push_back(index);
}

/// Only the links that may be full: a NIC of its own is a cap. Under global load balancing the
/// spine is the stream's own.
FastEngine::Links FastEngine::links_of(const Stream& it) const {
  if (it.job >= 0 && !sglb_) {
    return jobs_[static_cast<size_t>(it.job)].links[static_cast<size_t>(it.pair)];
  }
  Links links;
  for (const LinkId link : path_of(it).span()) {
    if (it.job < 0 || busy(link)) links.ids[static_cast<size_t>(links.count++)] = link;
  }
  return links;
}

/// A stream that meets no other runs at full rate without the network; the first that it meets
/// brings it there.
void FastEngine::begin_stream(StreamIndex index) {
  const Links links = links_of(stream(index));
  bool alone = true;
  for (const LinkId link : links) {
    alone = alone && network_.load(link) == 0 && alone_[static_cast<size_t>(link.value)] < 0;
  }
  if (!alone) {
    enter_network(index);
    return;
  }
  Stream& it = stream(index);
  it.alone = true;
  for (const LinkId link : links) alone_[static_cast<size_t>(link.value)] = index;
  if (it.rate == 0) {
    set_rate(it, full_rate_);
    if (it.job < 0) {
      transfer_queue_.set(it.vertex, it.end);
    } else {
      touched_.push_back(it.job);
    }
  }
}

void FastEngine::enter_network(StreamIndex index) {
  Stream& it = stream(index);
  const Links links = links_of(it);
  std::array<LinkUse, 4> uses;
  for (int i = 0; i < links.count; ++i) {
    const LinkId link = links.ids[static_cast<size_t>(i)];
    uses[static_cast<size_t>(i)].link = link;
    const StreamIndex other = std::exchange(alone_[static_cast<size_t>(link.value)], -1);
    if (other < 0 || other == index) continue;
    for (const LinkId its : links_of(stream(other))) {
      alone_[static_cast<size_t>(its.value)] = -1;
    }
    stream(other).alone = false;
    enter_network(other);
  }
  const std::span<const LinkUse> used(uses.data(), static_cast<size_t>(links.count));
  if (it.id.valid()) {
    network_.reroute(it.id, used, full_rate_);
    return;
  }
  it.id = network_.add(used, full_rate_);
  const auto number = static_cast<size_t>(it.id.value);
  if (number >= by_id_.size()) by_id_.resize(number + 1, -1);
  by_id_[number] = index;
}

/// Before the links of a stream change; reroute() puts it back.
void FastEngine::withdraw(StreamIndex index) {
  Stream& it = stream(index);
  if (!it.alone) return;
  for (const LinkId link : links_of(it)) alone_[static_cast<size_t>(link.value)] = -1;
  it.alone = false;
}

void FastEngine::reroute(StreamIndex index) {
  if (stream(index).id.valid()) {
    enter_network(index);
  } else if (stream(index).rate > 0) {  // else it starts at this time and will find its links
    begin_stream(index);
  }
}

void FastEngine::start_streams() {
  if (starting_.empty()) return;
  if (sglb_) {
    std::sort(starting_.begin(), starting_.end(), [&](StreamIndex a, StreamIndex b) {
      const auto key = [&](const Stream& it) {
        return std::tuple(it.job < 0, it.job, it.job < 0 ? it.vertex : it.pair);
      };
      return key(stream(a)) < key(stream(b));
    });
  }
  for (const StreamIndex index : starting_) {
    if (sglb_) pick(index);
    begin_stream(index);
    ++counters_.flows;
  }
  starting_.clear();
}

/// The flow has a new rate from now on.
void FastEngine::set_rate(Stream& it, double rate) {
  if (it.rate == rate) return;
  it.left = std::max<int64_t>(0, it.left - bytes_moved(now_ - it.since, it.rate));
  it.since = now_;
  it.rate = rate;
  it.end = rate > 0 ? now_ + time_to_move(it.left, rate) : kNever;
  it.slowed = it.slowed || rate < full_rate_;
}

void FastEngine::settle() {
  for (const StreamId id : network_.settle()) {
    Stream& it = stream(by_id_[static_cast<size_t>(id.value)]);
    set_rate(it, network_.rate(id));
    if (it.job < 0) {
      transfer_queue_.set(it.vertex, it.end);
    } else {
      touched_.push_back(it.job);
    }
  }
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const int index : touched_) requeue(index);
  touched_.clear();
}

// -- Global load balancing ----------------------------------------------------------------------

void FastEngine::pick(StreamIndex index) {
  Stream& it = stream(index);
  it.spine = 0;
  const LeafSpine::Path path = path_of(it);
  it.spine = -1;
  if (path.size < 4) return;
  const FabricShape& shape = options_.fabric;
  const int from = path.links[0].value / 2, to = path.links[3].value / 2;
  const int owner = it.job >= 0 ? it.job : transfers_[static_cast<size_t>(it.vertex)].job;
  if (it.job < 0) crossing_transfers_.insert(it.vertex);
  it.spine = sglb_->start(shape.rack_of(from), shape.rack_of(to),
                          flow_hash(static_cast<uint64_t>(from), static_cast<uint64_t>(to),
                                    static_cast<uint64_t>(owner)));
  tick_ = std::min(
      tick_, (now_ + sglb_->rule().tick_us - 1) / sglb_->rule().tick_us * sglb_->rule().tick_us);
}

/// Every active flow between racks, by (job, pair), transfers last, may pick another spine.
void FastEngine::tick() {
  tick_ = kNever;
  std::vector<StreamIndex> active;
  const FabricShape& shape = options_.fabric;
  for (const int index : crossing_jobs_) {
    const auto first = static_cast<std::ptrdiff_t>(active.size());
    for (const StreamIndex s : job(index).streams) {
      if (stream(s).spine >= 0 && (stream(s).id.valid() || stream(s).alone)) active.push_back(s);
    }
    std::sort(active.begin() + first, active.end(),
              [&](StreamIndex a, StreamIndex b) { return stream(a).pair < stream(b).pair; });
  }
  for (const int number : crossing_transfers_) {
    active.push_back(transfer_streams_[static_cast<size_t>(number)]);
  }
  for (const StreamIndex s : active) {
    Stream& it = stream(s);
    const LeafSpine::Path path = path_of(it);
    const int from = path.links[0].value / 2, to = path.links[3].value / 2;
    const uint64_t version = sglb_->version(shape.rack_of(from), shape.rack_of(to));
    if (it.seen == version) continue;
    const int owner = it.job >= 0 ? it.job : transfers_[static_cast<size_t>(it.vertex)].job;
    const int spine = sglb_->tick(shape.rack_of(from), shape.rack_of(to), it.spine,
                                  flow_hash(static_cast<uint64_t>(from), static_cast<uint64_t>(to),
                                            static_cast<uint64_t>(owner)));
    if (spine == it.spine) {
      it.seen = version;
      continue;
    }
    withdraw(s);
    it.spine = spine;
    reroute(s);
    tick_ = now_ / sglb_->rule().tick_us * sglb_->rule().tick_us + sglb_->rule().tick_us;
  }
}

}  // namespace monkeytree
