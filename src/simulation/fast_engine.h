#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "network/network.h"
#include "simulation/contention.h"
#include "simulation/engine.h"
#include "simulation/event_queue.h"
#include "simulation/graph.h"
#include "simulation/walk.h"

namespace monkeytree {

/// Looks only at flows that may meet others; gives the same times as the plain engine.
///
/// In a job a NIC carries at most one flow each way, so a flow that has its uplink and its downlink
/// to itself runs at full rate. A job all of whose flows do is *quiet*: all its iterations take the
/// same time, and it is one entry in the queue, the end of its run. When an arrival, a departure or
/// a new route makes a link contended, the jobs on that link become *walking*: their flows on
/// contended links are streams of the network, whose rates are max-min fair, and what waits for
/// them is worked out from the graph of one iteration (walk.h).
class FastEngine final : public Engine {
 public:
  explicit FastEngine(const EngineOptions& options);
  ~FastEngine() override;

  Time next() override;
  void advance(Time time, std::vector<Notice>& notices) override;
  void start(int job, const Program& program, std::span<const int> hosts, PairSpines spines,
             int64_t iterations) override;
  void stop(int job) override;
  void resume(int job, std::span<const int> hosts, PairSpines spines) override;
  void set_routes(int job, PairSpines spines) override;
  int transfer(const Transfer& transfer) override;
  void set_transfer_spine(int transfer, int spine) override;
  const EngineCounters& counters() const override { return counters_; }

 private:
  enum class State : uint8_t { kStopped, kQuiet, kWalking, kFinished };

  /// A flow whose rate may change. In `order` of flows that start at one time: by job and pair,
  /// transfers after them.
  struct Stream {
    int job = -1;     ///< -1: a transfer
    int vertex = -1;  ///< of the job's graph; of a transfer, its number
    int pair = -1;
    StreamId id;       ///< in the network, once it is there
    int64_t left = 0;  ///< bytes at `since`
    Time since = 0, end = kNever;
    double rate = 0;
    int spine = -1;
    bool slowed = false;
    uint64_t seen = 0;   ///< Sglb::version() when it was found well placed
    bool alone = false;  ///< on links that no other stream uses, and not in the network
  };
  using StreamIndex = int;

  struct Links {
    std::array<LinkId, 4> ids;
    int count = 0;
    const LinkId* begin() const { return ids.data(); }
    const LinkId* end() const { return ids.data() + count; }
  };

  struct Job {
    const Program* program = nullptr;
    const Graph* graph = nullptr;
    State state = State::kFinished;
    bool stopping = false;
    bool dirty = false;      ///< its open flows must be found anew
    bool chosen = false;     ///< the walk knows the open flows
    Time begun = 0;          ///< quiet: when the first of the iterations left began
    int64_t iterations = 0;  ///< left
    std::vector<int> hosts;
    PairSpines spines;
    std::vector<int> crossing;  ///< pairs between racks
    std::vector<Contention::Load> loads;
    std::vector<char> open;    ///< by pair
    std::vector<Links> links;  ///< by pair: those that may be full
    std::vector<StreamIndex> streams;
    std::unique_ptr<Walk> walk;
  };

  const Graph& graph_of(const Program& program);
  Job& job(int index) { return jobs_[static_cast<size_t>(index)]; }
  Stream& stream(StreamIndex index) { return streams_[static_cast<size_t>(index)]; }

  // Jobs.
  void place(int index, std::span<const int> hosts, PairSpines spines);
  void leave(int index);
  void load_links(int index);
  void mark_dirty(int index);
  void refresh(int index);
  bool find_open(Job& it);
  void thaw(int index);
  void run_quiet(int index, Time begun);
  void requeue(int index);
  void process(int index, std::vector<Notice>& notices);
  void end_iteration(int index, std::vector<Notice>& notices);

  // Streams.
  StreamIndex open_stream(int job, int vertex, int pair, int64_t bytes, Time since);
  void close_stream(StreamIndex index);
  void reroute(StreamIndex index);
  Links links_of(const Stream& it) const;
  void begin_stream(StreamIndex index);
  void withdraw(StreamIndex index);
  void enter_network(StreamIndex index);
  void start_streams();
  void set_rate(Stream& it, double rate);
  void settle();
  LeafSpine::Path path_of(const Stream& it) const;
  bool busy(LinkId link) const;

  // Global load balancing.
  void pick(StreamIndex index);
  void tick();

  EngineOptions options_;
  LeafSpine fabric_;
  double full_rate_;  ///< of a NIC
  Network network_;
  Contention contention_;
  std::optional<Sglb> sglb_;
  Time now_ = 0;
  Time tick_ = kNever;  ///< the next that may change anything

  std::map<const Program*, std::unique_ptr<Graph>> graphs_;
  std::vector<Job> jobs_;
  std::vector<int> job_of_host_;    ///< running there, or -1
  std::vector<int> nic_transfers_;  ///< by link of a host
  std::vector<int> dirty_;
  std::set<int> crossing_jobs_;  ///< under global load balancing: running, between racks
  std::set<int> crossing_transfers_;
  EventQueue queue_;           ///< jobs
  EventQueue transfer_queue_;  ///< streams of transfers, by transfer
  std::vector<Transfer> transfers_;
  std::vector<StreamIndex> transfer_streams_;

  std::vector<Stream> streams_;
  std::vector<StreamIndex> spare_streams_;
  std::vector<StreamIndex> starting_;
  std::vector<StreamIndex> by_id_;  ///< by StreamId
  std::vector<StreamIndex> alone_;  ///< by link: the only stream on it, not in the network; or -1
  std::vector<int> touched_;
  EngineCounters counters_;
};

}  // namespace monkeytree
