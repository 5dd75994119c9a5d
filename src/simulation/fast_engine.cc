#include "simulation/fast_engine.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "simulation/moving.h"

namespace monkeytree {

std::unique_ptr<Engine> make_fast_engine(const EngineOptions& options) {
  return std::make_unique<FastEngine>(options);
}

FastEngine::FastEngine(const EngineOptions& options)
    : options_(options),
      fabric_(options.fabric),
      full_rate_(quantized_rate(options.fabric.link_bytes_per_us)),
      contention_(fabric_),
      job_of_host_(static_cast<size_t>(options.fabric.gpus), -1),
      nic_transfers_(2 * static_cast<size_t>(options.fabric.gpus)),
      alone_(static_cast<size_t>(fabric_.link_count()), -1) {
  network_.reserve_links(static_cast<size_t>(fabric_.link_count()));
  if (options.sglb) sglb_.emplace(options.fabric.racks(), options.fabric.spines, *options.sglb);
  for (int link = 0; link < fabric_.link_count(); ++link) {
    network_.add_link(fabric_.capacity(LinkId(link)));
  }
}

FastEngine::~FastEngine() = default;

const Graph& FastEngine::graph_of(const Program& program) {
  std::unique_ptr<Graph>& graph = graphs_[&program];
  if (!graph) graph = std::make_unique<Graph>(program, options_.fabric);
  return *graph;
}

// -- What the caller does -----------------------------------------------------------------------

void FastEngine::start(int index, const Program& program, std::span<const int> hosts,
                       PairSpines spines, int64_t iterations) {
  if (static_cast<size_t>(index) >= jobs_.size()) jobs_.resize(static_cast<size_t>(index) + 1);
  Job& it = job(index);
  it.program = &program;
  it.graph = &graph_of(program);
  it.iterations = iterations;
  it.stopping = false;
  place(index, hosts, std::move(spines));
  run_quiet(index, now_);
}

void FastEngine::resume(int index, std::span<const int> hosts, PairSpines spines) {
  place(index, hosts, std::move(spines));
  run_quiet(index, now_);
}

void FastEngine::stop(int index) {
  Job& it = job(index);
  it.stopping = true;
  if (it.state == State::kQuiet) requeue(index);
}

void FastEngine::set_routes(int index, PairSpines spines) {
  Job& it = job(index);
  if (it.spines == spines || sglb_) return;
  it.spines = std::move(spines);
  if (it.state != State::kQuiet && it.state != State::kWalking) return;
  contention_.remove(index, it.loads);
  load_links(index);
  mark_dirty(index);
}

int FastEngine::transfer(const Transfer& transfer) {
  const int number = static_cast<int>(transfers_.size());
  transfers_.push_back(transfer);
  transfer_streams_.push_back(-1);
  const StreamIndex index = open_stream(-1, number, -1, transfer.bytes, now_);
  transfer_streams_.back() = index;
  stream(index).spine = transfer.spine;
  for (const LinkId nic :
       {fabric_.host_up(transfer.from_host), fabric_.host_down(transfer.to_host)}) {
    ++nic_transfers_[static_cast<size_t>(nic.value)];
    mark_dirty(job_of_host_[static_cast<size_t>(nic.value / 2)]);
  }
  if (!sglb_) {
    for (const LinkId link : path_of(stream(index)).span()) {
      if (link.value >= 2 * options_.fabric.gpus) contention_.add(link, 1);
    }
  }
  transfer_queue_.set(number, stream(index).end);
  return number;
}

void FastEngine::set_transfer_spine(int number, int spine) {
  const StreamIndex index = transfer_streams_[static_cast<size_t>(number)];
  if (index < 0 || sglb_ || stream(index).spine == spine) return;
  Stream& it = stream(index);
  withdraw(index);
  for (const int change : {-1, 1}) {
    if (change > 0) it.spine = spine;
    for (const LinkId link : path_of(it).span()) {
      if (link.value >= 2 * options_.fabric.gpus) contention_.add(link, change);
    }
  }
  reroute(index);
}

// -- Where a job stands -------------------------------------------------------------------------

void FastEngine::place(int index, std::span<const int> hosts, PairSpines spines) {
  Job& it = job(index);
  it.hosts.assign(hosts.begin(), hosts.end());
  it.spines = std::move(spines);
  it.crossing.clear();
  const std::vector<RankPair>& pairs = it.program->pairs;
  for (size_t p = 0; p < pairs.size(); ++p) {
    const int from = it.hosts[static_cast<size_t>(pairs[p].from)];
    const int to = it.hosts[static_cast<size_t>(pairs[p].to)];
    if (options_.fabric.rack_of(from) != options_.fabric.rack_of(to)) {
      it.crossing.push_back(static_cast<int>(p));
    }
  }
  if (sglb_ && !it.crossing.empty()) crossing_jobs_.insert(index);
  for (const int host : hosts) job_of_host_[static_cast<size_t>(host)] = index;
  it.open.assign(pairs.size(), 0);
  it.links.assign(pairs.size(), {});
  load_links(index);
  mark_dirty(index);
}

void FastEngine::leave(int index) {
  Job& it = job(index);
  contention_.remove(index, it.loads);
  it.loads.clear();
  crossing_jobs_.erase(index);
  it.walk.reset();
  for (const int host : it.hosts) job_of_host_[static_cast<size_t>(host)] = -1;
  queue_.set(index, kNever);
}

/// A rank sends one flow at a time and receives one, so of the flows between some senders and some
/// receivers no more are under way at once than there are of either.
void FastEngine::load_links(int index) {
  Job& it = job(index);
  it.loads.clear();
  if (sglb_) return;
  struct End {
    LinkId link;
    int rank;
    bool sends;
    auto operator<=>(const End&) const = default;
  };
  std::vector<End> ends;
  for (const int p : it.crossing) {
    const RankPair& pair = it.program->pairs[static_cast<size_t>(p)];
    const LeafSpine::Path path =
        fabric_.path(it.hosts[static_cast<size_t>(pair.from)],
                     it.hosts[static_cast<size_t>(pair.to)], it.spines[static_cast<size_t>(p)]);
    for (const LinkId link : {path.links[1], path.links[2]}) {
      ends.push_back({link, pair.from, true});
      ends.push_back({link, pair.to, false});
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (size_t i = 0; i < ends.size();) {
    const LinkId link = ends[i].link;
    int senders = 0, receivers = 0;
    for (; i < ends.size() && ends[i].link == link; ++i) ++(ends[i].sends ? senders : receivers);
    it.loads.push_back({link, std::min(senders, receivers)});
  }
  contention_.add(index, it.loads);
}

void FastEngine::mark_dirty(int index) {
  if (index < 0 || job(index).dirty) return;
  job(index).dirty = true;
  dirty_.push_back(index);
}

bool FastEngine::busy(LinkId link) const {
  if (link.value < 2 * options_.fabric.gpus) {
    return nic_transfers_[static_cast<size_t>(link.value)] > 0;
  }
  return sglb_ || contention_.contended(link);
}

/// True where at least one flow is open.
bool FastEngine::find_open(Job& it) {
  bool any = false;
  const std::vector<RankPair>& pairs = it.program->pairs;
  for (size_t p = 0; p < pairs.size(); ++p) {
    const LeafSpine::Path path =
        fabric_.path(it.hosts[static_cast<size_t>(pairs[p].from)],
                     it.hosts[static_cast<size_t>(pairs[p].to)], sglb_ ? 0 : it.spines[p]);
    Links& links = it.links[p];
    links.count = 0;
    for (const LinkId link : path.span()) {
      if (busy(link)) links.ids[static_cast<size_t>(links.count++)] = link;
    }
    const bool open = links.count > 0;
    it.open[p] = open;
    any = any || open;
  }
  return any;
}

void FastEngine::refresh(int index) {
  Job& it = job(index);
  it.dirty = false;
  if (it.state != State::kQuiet && it.state != State::kWalking) return;
  it.chosen = false;
  for (const StreamIndex s : it.streams) withdraw(s);
  const bool any = find_open(it);
  if (it.state == State::kQuiet && !any) return;
  thaw(index);
  requeue(index);
}

/// Goes through the present iteration again with the flows that are open now.
void FastEngine::thaw(int index) {
  Job& it = job(index);
  if (it.state == State::kQuiet) {
    const Time period = it.graph->period;
    const int64_t past = period > 0 ? (now_ - it.begun) / period : 0;
    it.iterations -= past;
    counters_.iterations += past;
    counters_.skipped += past;
    it.walk = std::make_unique<Walk>(*it.graph);
    it.walk->enter(it.begun + past * period);
    it.state = State::kWalking;
  }
  it.walk->revise(now_, it.open, [&](int vertex, Time begun) {
    const Graph::Vertex& flow = it.graph->vertices[static_cast<size_t>(vertex)];
    const auto at = std::find_if(it.streams.begin(), it.streams.end(),
                                 [&](StreamIndex s) { return stream(s).vertex == vertex; });
    const bool open = it.open[static_cast<size_t>(flow.pair)] != 0;
    if (at == it.streams.end()) {
      if (!open) return begun + flow.duration;
      const StreamIndex s = open_stream(index, vertex, flow.pair, flow.bytes, begun);
      stream(s).rate = full_rate_;
      stream(s).end = begun + flow.duration;
      it.streams.push_back(s);
      return kNever;
    }
    // A stream stays one to its end, on whatever links are busy now: it alone knows its bytes.
    if (!sglb_) stream(*at).spine = it.spines[static_cast<size_t>(flow.pair)];
    reroute(*at);
    return kNever;
  });
}

void FastEngine::run_quiet(int index, Time begun) {
  Job& it = job(index);
  it.state = State::kQuiet;
  it.begun = begun;
  it.walk.reset();
  requeue(index);
}

/// Puts the job's next event into the queue.
void FastEngine::requeue(int index) {
  Job& it = job(index);
  Time time = kNever;
  if (it.state == State::kQuiet) {
    const Time period = it.graph->period;
    const int64_t past = period > 0 ? (now_ - it.begun) / period : 0;
    time = it.begun + (it.stopping ? past + 1 : it.iterations) * period;
  } else if (it.state == State::kWalking) {
    time = it.walk->end();
    if (it.walk->has_start()) time = std::min(time, it.walk->next_start());
    for (const StreamIndex s : it.streams) time = std::min(time, stream(s).end);
  }
  queue_.set(index, time);
}

// -- Time ---------------------------------------------------------------------------------------

Time FastEngine::next() {
  for (;;) {
    for (const int index : contention_.take_changed()) mark_dirty(index);
    if (dirty_.empty()) break;
    std::vector<int> dirty = std::exchange(dirty_, {});
    std::sort(dirty.begin(), dirty.end());
    for (const int index : dirty) refresh(index);
  }
  start_streams();
  if (tick_ == now_) tick();
  settle();
  return std::min({queue_.top_time(), transfer_queue_.top_time(), tick_});
}

void FastEngine::advance(Time time, std::vector<Notice>& notices) {
  next();  // what the caller did at this time
  now_ = time;
  const auto first = static_cast<std::ptrdiff_t>(notices.size());
  while (queue_.top_time() <= now_) process(queue_.top(), notices);
  while (transfer_queue_.top_time() <= now_) {
    const int number = transfer_queue_.top();
    transfer_queue_.set(number, kNever);
    crossing_transfers_.erase(number);
    const StreamIndex index = std::exchange(transfer_streams_[static_cast<size_t>(number)], -1);
    const Transfer& it = transfers_[static_cast<size_t>(number)];
    if (!sglb_) {
      for (const LinkId link : path_of(stream(index)).span()) {
        if (link.value >= 2 * options_.fabric.gpus) contention_.add(link, -1);
      }
    }
    for (const LinkId nic : {fabric_.host_up(it.from_host), fabric_.host_down(it.to_host)}) {
      --nic_transfers_[static_cast<size_t>(nic.value)];
      mark_dirty(job_of_host_[static_cast<size_t>(nic.value / 2)]);
    }
    close_stream(index);
    notices.push_back({Notice::kTransfer, number});
  }
  std::sort(notices.begin() + first, notices.end());
}

/// Everything that happens to a job now.
void FastEngine::process(int index, std::vector<Notice>& notices) {
  Job& it = job(index);
  if (it.state == State::kQuiet) {
    const int64_t past = it.graph->period > 0 ? (now_ - it.begun) / it.graph->period
                                              : (it.stopping ? 1 : it.iterations);
    it.iterations -= past - 1;
    counters_.iterations += past - 1;
    counters_.skipped += past;
    end_iteration(index, notices);
    return;
  }
  while (it.state == State::kWalking) {
    bool idle = true;
    for (size_t i = 0; i < it.streams.size();) {
      const StreamIndex s = it.streams[i];
      if (stream(s).end > now_) {
        ++i;
        continue;
      }
      const int vertex = stream(s).vertex;
      it.streams.erase(it.streams.begin() + static_cast<std::ptrdiff_t>(i));
      close_stream(s);
      it.walk->finish(vertex, now_);
      idle = false;
    }
    while (it.walk->has_start() && it.walk->next_start() <= now_) {
      const int vertex = it.walk->pop_start();
      const Graph::Vertex& flow = it.graph->vertices[static_cast<size_t>(vertex)];
      it.streams.push_back(open_stream(index, vertex, flow.pair, flow.bytes, now_));
      idle = false;
    }
    if (it.walk->end() <= now_) {
      end_iteration(index, notices);
      idle = false;
    }
    if (idle) break;
  }
  if (it.state == State::kWalking) requeue(index);
}

/// The present iteration is over: the job finishes, stops or goes on.
void FastEngine::end_iteration(int index, std::vector<Notice>& notices) {
  Job& it = job(index);
  --it.iterations;
  ++counters_.iterations;
  if (it.iterations == 0 || it.stopping) {
    const bool finished = it.iterations == 0;
    leave(index);
    it.state = State::kStopped;
    it.stopping = false;
    if (finished) it = Job();
    notices.push_back({finished ? Notice::kFinished : Notice::kStopped, index});
    return;
  }
  if (std::find(it.open.begin(), it.open.end(), 1) == it.open.end()) {
    run_quiet(index, now_);
    return;
  }
  if (!it.chosen) it.walk->choose(it.open);
  it.chosen = true;
  it.walk->begin(now_);
}

}  // namespace monkeytree
