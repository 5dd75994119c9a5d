#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/snapshot.h"
#include "fabric.h"
#include "live_system.h"
#include "prediction.h"
#include "timeline.h"

namespace monkeytree {

/// The whole system on one machine: a fabric, Slurm, controller and agents inside it, and PyTorch
/// jobs that train across it in rings. The calling thread is in the fabric's head until the end.
class TrainedFabric {
 public:
  struct Options {
    FabricSize fabric;
    int parameters = 0;  ///< of each job's model, of 4 bytes
    int compute_ms = 0;  ///< of an iteration
  };
  /// Why tests must be skipped on this machine: "" where nothing is missing.
  static std::string missing();
  explicit TrainedFabric(const Options& options);
  ~TrainedFabric();
  TrainedFabric(const TrainedFabric&) = delete;
  TrainedFabric& operator=(const TrainedFabric&) = delete;

  LiveSystem& live() { return *live_; }
  Fabric& fabric() { return *fabric_; }

  /// A job of a rank on each of the nodes, in this order; it waits before its first iteration.
  void train(const std::string& name, const std::vector<std::string>& nodes);
  /// Agents start anew: finding source ports by probes, or leaving all to the kernel.
  void restart_agents(bool routed);
  /// What the operator, or whatever watches the cables, tells the controller.
  void tell_failed(int rack, std::optional<int> spine);

  /// These jobs train until `enough`; all stand still afterwards. False: it took too long.
  bool run_until(const std::vector<std::string>& names, const std::function<bool()>& enough);
  /// The same for so many iterations of each; their means in seconds, the first one aside, by
  /// name. What the simulator says of the same placement and ports goes to predicted().
  std::map<std::string, double> measure(const std::vector<std::string>& names, int iterations);
  const std::map<std::string, double>& predicted() const { return predicted_; }
  /// The part of all cores that was busy meanwhile, with whatever, 0 to 1.
  double busy() const { return busy_; }
  /// Tells that the rack's uplink to the spine has failed, and waits until agents hold routes that
  /// leave it out. Seconds; negative: they never did.
  double reroute_without(int rack, int spine);
  /// True where every connection between racks goes up the uplink of its route, by its own ports
  /// and the word of the racks' routers.
  bool on_their_uplinks();

  /// Lets all jobs end after the same iteration, and trains once more without a fabric, Slurm or
  /// moves. "": losses and parameters are the same bit by bit; otherwise what is not.
  std::string compare_with_undisturbed();
  int workers_moved();

  void mark(const std::string& text);
  const Timeline& timeline();
  double goodput() const { return goodput_; }  ///< bytes a second of an uplink, as measured

 private:
  struct Job {
    std::string name, id;
    size_t ranks = 0;
    Process store;
  };
  struct Line {
    int iteration = 0;
    double begin = 0, seconds = 0;
    std::string loss, node, process, from, to;
    int from_port = 0, to_port = 0;
  };
  std::string folder_of(const std::string& name) { return live_->file(name); }
  Process store(const std::string& name);
  Job& job(const std::string& name);
  std::vector<Line> lines(const std::string& name, size_t rank);
  int most_done(const Job& job);
  int least_done(const Job& job);
  void let(const Job& job, const std::string& text);
  /// The connection of each rank to the next as the last iteration used it.
  PredictedJob as_it_is(const Job& job);
  void predict(const std::vector<std::string>& names);
  double measure_goodput();
  std::string uplinks_table(int rack, std::optional<int> spine) const;
  void watch();

  Options options_;
  int outside_ = -1;  ///< the namespace that we came from
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<LiveSystem> live_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<std::string, double> predicted_;
  double goodput_ = 0, began_ = 0, busy_ = 0;
  std::mutex mutex_;
  Timeline timeline_;
  std::atomic<bool> stop_{false};
  std::thread watcher_;
};

}  // namespace monkeytree
