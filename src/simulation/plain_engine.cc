#include "simulation/plain_engine.h"

#include <algorithm>
#include <cassert>
#include <compare>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "network/network.h"
#include "network/scratch_network.h"
#include "simulation/moving.h"

namespace monkeytree {
namespace {

/// Whose flow. A rank sends to one other at a time, so a pair has at most one flow under way.
struct FlowKey {
  bool transfer = false;
  int owner = 0;  ///< job, or number of the transfer
  int pair = 0;   ///< index in the job's Program::pairs
  friend auto operator<=>(const FlowKey&, const FlowKey&) = default;
};

struct Flow {
  int job = 0;  ///< for its hash
  int from_host = 0, to_host = 0;
  int from_rank = -1, to_rank = -1;  ///< of a job's flow
  int spine = -1;
  StreamId stream;  ///< once it has started
  int64_t bytes_left = 0;
  Time since = 0;  ///< bytes_left is of this time
  Time end = kNever;
  double rate = 0;
  bool slowed = false;
};

struct Rank {
  size_t step = 0;
  int waiting = 0;             ///< for a computation, or for its flows
  bool wants_to_send = false;  ///< and its receiver has not come
  bool wants_to_receive = false;
};

struct Job {
  const Program* program = nullptr;
  std::vector<int> hosts;
  PairSpines spines;
  int64_t iterations_left = 0;
  bool stopping = false;
  std::vector<Rank> ranks;
  size_t ranks_done = 0;
};

/// Every rank walks its own steps; every flow is a stream in `Rates`, over every link of its path.
template <class Rates>
class PlainEngine final : public Engine {
 public:
  explicit PlainEngine(const EngineOptions& options) : fabric_(options.fabric) {
    const FabricShape& shape = fabric_.shape();
    if (options.sglb) sglb_.emplace(shape.racks(), shape.spines, *options.sglb);
    for (int l = 0; l < fabric_.link_count(); ++l) rates_.add_link(fabric_.capacity(LinkId(l)));
  }

  Time next() override {
    handle_now();
    settle();
    if (!notices_.empty()) return now_;
    Time time = tick_;
    if (!ends_.empty()) time = std::min(time, ends_.begin()->first);
    if (!computations_.empty()) time = std::min(time, std::get<Time>(*computations_.begin()));
    return time;
  }

  void advance(Time time, std::vector<Notice>& notices) override {
    [[maybe_unused]] const Time latest = next();
    assert(now_ <= time && time <= latest);
    now_ = time;
    handle_now();
    std::sort(notices_.begin(), notices_.end());
    notices.insert(notices.end(), notices_.begin(), notices_.end());
    notices_.clear();
  }

  void start(int index, const Program& program, std::span<const int> hosts, PairSpines spines,
             int64_t iterations) override {
    Job& job = jobs_[index];
    job = Job();
    job.program = &program;
    job.iterations_left = iterations;
    resume(index, hosts, std::move(spines));
  }

  void stop(int index) override { jobs_.at(index).stopping = true; }

  void resume(int index, std::span<const int> hosts, PairSpines spines) override {
    Job& job = jobs_.at(index);
    job.hosts.assign(hosts.begin(), hosts.end());
    job.spines = std::move(spines);
    begin_iteration(index);
  }

  void set_routes(int index, PairSpines spines) override {
    Job& job = jobs_.at(index);
    job.spines = std::move(spines);
    if (sglb_) return;
    for (auto at = active_.lower_bound({false, index, 0});
         at != active_.end() && !at->first.transfer && at->first.owner == index; ++at) {
      move_to_spine(at->second, job.spines[static_cast<size_t>(at->first.pair)]);
    }
  }

  int transfer(const Transfer& transfer) override {
    const int number = transfers_++;
    Flow flow;
    flow.job = transfer.job;
    flow.from_host = transfer.from_host;
    flow.to_host = transfer.to_host;
    flow.spine = transfer.spine;
    flow.bytes_left = transfer.bytes;
    if (transfer.bytes == 0) {
      notices_.push_back({Notice::kTransfer, number});
    } else {
      starting_.emplace(FlowKey{true, number, 0}, flow);
    }
    return number;
  }

  void set_transfer_spine(int number, int spine) override {
    if (sglb_) return;
    const FlowKey key{true, number, 0};
    if (const auto at = starting_.find(key); at != starting_.end()) at->second.spine = spine;
    if (const auto at = active_.find(key); at != active_.end()) move_to_spine(at->second, spine);
  }

  const EngineCounters& counters() const override { return counters_; }

 private:
  // -- Ranks and their steps

  void begin_iteration(int index) {
    Job& job = jobs_.at(index);
    job.ranks.assign(job.program->steps.size(), Rank());
    job.ranks_done = 0;
    for (size_t r = 0; r < job.ranks.size(); ++r) ready_.emplace_back(index, static_cast<int>(r));
  }

  /// All that happens at this time: ends, then what they let start, then ends of iterations, until
  /// nothing more does. What starts waits in starting_ for settle().
  void handle_now() {
    while (!ends_.empty() && ends_.begin()->first <= now_) end_flow(ends_.begin()->second);
    while (!computations_.empty() && std::get<Time>(*computations_.begin()) <= now_) {
      const auto [time, index, rank] = *computations_.begin();
      computations_.erase(computations_.begin());
      arrive(index, rank);
    }
    while (!ready_.empty() || !whole_.empty()) {
      while (!ready_.empty()) {
        const auto [index, rank] = ready_.back();
        ready_.pop_back();
        begin_step(index, rank);
      }
      for (const int index : std::exchange(whole_, {})) end_iteration(index);
    }
  }

  void begin_step(int index, int r) {
    Job& job = jobs_.at(index);
    Rank& rank = job.ranks[static_cast<size_t>(r)];
    const std::vector<Step>& steps = job.program->steps[static_cast<size_t>(r)];
    if (rank.step == steps.size()) {
      if (++job.ranks_done == job.ranks.size()) whole_.insert(index);
      return;
    }
    const Step& step = steps[rank.step];
    if (step.compute_us > 0) {
      rank.waiting = 1;
      computations_.emplace(now_ + step.compute_us, index, r);
      return;
    }
    rank.wants_to_send = step.send_to >= 0;
    rank.wants_to_receive = step.receive_from >= 0;
    rank.waiting = rank.wants_to_send + rank.wants_to_receive + 1;
    if (step.send_to >= 0) meet(index, r, step.send_to);
    if (step.receive_from >= 0) meet(index, step.receive_from, r);
    arrive(index, r);  // at the step itself
  }

  /// One of the things that the rank waits for is over.
  void arrive(int index, int r) {
    Rank& rank = jobs_.at(index).ranks[static_cast<size_t>(r)];
    if (--rank.waiting > 0) return;
    ++rank.step;
    ready_.emplace_back(index, r);
  }

  /// Starts the flow if both ends have reached it.
  void meet(int index, int from, int to) {
    Job& job = jobs_.at(index);
    Rank& sender = job.ranks[static_cast<size_t>(from)];
    Rank& receiver = job.ranks[static_cast<size_t>(to)];
    if (!sender.wants_to_send || !receiver.wants_to_receive) return;
    const Step& send = job.program->steps[static_cast<size_t>(from)][sender.step];
    const Step& receipt = job.program->steps[static_cast<size_t>(to)][receiver.step];
    if (send.send_to != to || receipt.receive_from != from) return;
    sender.wants_to_send = receiver.wants_to_receive = false;
    Flow flow;
    flow.job = index;
    flow.from_rank = from;
    flow.to_rank = to;
    flow.from_host = job.hosts[static_cast<size_t>(from)];
    flow.to_host = job.hosts[static_cast<size_t>(to)];
    flow.bytes_left = send.send_bytes;
    if (takes_no_time(flow)) {
      arrive(index, from);
      arrive(index, to);
      return;
    }
    starting_.emplace(FlowKey{false, index, pair_of(*job.program, from, to)}, flow);
  }

  static int pair_of(const Program& program, int from, int to) {
    const auto at =
        std::lower_bound(program.pairs.begin(), program.pairs.end(), std::pair(from, to),
                         [](const RankPair& pair, const std::pair<int, int>& wanted) {
                           return std::pair(pair.from, pair.to) < wanted;
                         });
    assert(at != program.pairs.end() && at->from == from && at->to == to);
    return static_cast<int>(at - program.pairs.begin());
  }

  bool takes_no_time(const Flow& flow) const {
    const FabricShape& shape = fabric_.shape();
    return flow.bytes_left == 0 || flow.from_host == flow.to_host ||
           (shape.nvlink && shape.node_of(flow.from_host) == shape.node_of(flow.to_host));
  }

  void end_iteration(int index) {
    Job& job = jobs_.at(index);
    ++counters_.iterations;
    if (--job.iterations_left == 0) {
      notices_.push_back({Notice::kFinished, index});
      jobs_.erase(index);
    } else if (job.stopping) {
      job.stopping = false;
      notices_.push_back({Notice::kStopped, index});
    } else {
      begin_iteration(index);
    }
  }

  // -- Flows and their rates

  void end_flow(FlowKey key) {
    const auto at = active_.find(key);
    const Flow flow = at->second;
    rates_.remove(flow.stream);
    if (sglb_ && crosses(flow)) {
      sglb_->end(rack_from(flow), rack_to(flow), flow.spine);
      tick_ = std::min(tick_, tick_from(now_));
    }
    ends_.erase({flow.end, key});
    active_.erase(at);
    counters_.contended_flows += flow.slowed;
    if (key.transfer) {
      notices_.push_back({Notice::kTransfer, key.owner});
    } else {
      arrive(key.owner, flow.from_rank);
      arrive(key.owner, flow.to_rank);
    }
  }

  /// Starts what starts now, lets flows pick again where a tick is due, and finds the rates.
  void settle() {
    for (const auto& [key, flow] : std::exchange(starting_, {})) start_flow(key, flow);
    if (tick_ == now_) tick();
    for (const StreamId stream : rates_.settle()) {
      const auto at = by_stream_[static_cast<size_t>(stream.value)];
      set_rate(at->first, at->second, rates_.rate(stream));
    }
  }

  void start_flow(const FlowKey& key, Flow flow) {
    if (!key.transfer) flow.spine = jobs_.at(key.owner).spines[static_cast<size_t>(key.pair)];
    if (sglb_ && crosses(flow)) {
      flow.spine = sglb_->start(rack_from(flow), rack_to(flow), hash(flow));
      tick_ = std::min(tick_, tick_from(now_));
    }
    flow.since = now_;
    flow.stream = rates_.add(uses(flow), kNoCap);
    by_stream_.resize(std::max(by_stream_.size(), static_cast<size_t>(flow.stream.value) + 1));
    by_stream_[static_cast<size_t>(flow.stream.value)] = active_.emplace(key, flow).first;
    ++counters_.flows;
  }

  void set_rate(const FlowKey& key, Flow& flow, double rate) {
    ends_.erase({flow.end, key});
    flow.bytes_left =
        std::max<int64_t>(0, flow.bytes_left - bytes_moved(now_ - flow.since, flow.rate));
    flow.since = now_;
    flow.rate = rate;
    flow.end = rate > 0 ? now_ + time_to_move(flow.bytes_left, rate) : kNever;
    flow.slowed |= rate < quantized_rate(fabric_.shape().link_bytes_per_us);
    ends_.emplace(flow.end, key);
  }

  std::vector<LinkUse> uses(const Flow& flow) const {
    std::vector<LinkUse> uses;
    for (const LinkId link : fabric_.path(flow.from_host, flow.to_host, flow.spine)) {
      uses.push_back({link, 1});
    }
    return uses;
  }

  void move_to_spine(Flow& flow, int spine) {
    flow.spine = spine;
    rates_.reroute(flow.stream, uses(flow), kNoCap);
  }

  // -- Global load balancing

  int rack_from(const Flow& flow) const { return fabric_.shape().rack_of(flow.from_host); }
  int rack_to(const Flow& flow) const { return fabric_.shape().rack_of(flow.to_host); }
  bool crosses(const Flow& flow) const { return rack_from(flow) != rack_to(flow); }
  static uint64_t hash(const Flow& flow) {
    return flow_hash(static_cast<uint64_t>(flow.from_host), static_cast<uint64_t>(flow.to_host),
                     static_cast<uint64_t>(flow.job));
  }

  /// The first tick that is not before `time`.
  Time tick_from(Time time) const {
    const int64_t period = sglb_->rule().tick_us;
    return (time + period - 1) / period * period;
  }

  /// Where no flow picks again and none starts or ends, the ticks after this one change nothing.
  void tick() {
    tick_ = kNever;
    for (auto& [key, flow] : active_) {
      if (!crosses(flow)) continue;
      const int spine = sglb_->tick(rack_from(flow), rack_to(flow), flow.spine, hash(flow));
      if (spine == flow.spine) continue;
      move_to_spine(flow, spine);
      tick_ = tick_from(now_ + 1);
    }
  }

  static constexpr double kNoCap = std::numeric_limits<double>::infinity();

  LeafSpine fabric_;
  Rates rates_;
  std::optional<Sglb> sglb_;
  Time now_ = 0;
  Time tick_ = kNever;  ///< the next that may change something
  EngineCounters counters_;
  std::map<int, Job> jobs_;
  int transfers_ = 0;
  std::vector<std::pair<int, int>> ready_;             ///< (job, rank) that go on to a step
  std::set<int> whole_;                                ///< jobs all of whose ranks are done
  std::set<std::tuple<Time, int, int>> computations_;  ///< end, job, rank
  std::map<FlowKey, Flow> starting_, active_;
  std::set<std::pair<Time, FlowKey>> ends_;
  std::vector<std::map<FlowKey, Flow>::iterator> by_stream_;
  std::vector<Notice> notices_;
};

}  // namespace

std::unique_ptr<Engine> make_plain_engine(const EngineOptions& options, PlainRates rates) {
  if (rates == PlainRates::kKept) return std::make_unique<PlainEngine<Network>>(options);
  return std::make_unique<PlainEngine<ScratchNetwork>>(options);
}

std::unique_ptr<Engine> make_plain_engine(const EngineOptions& options) {
  return make_plain_engine(options, PlainRates::kAnew);
}

}  // namespace monkeytree
