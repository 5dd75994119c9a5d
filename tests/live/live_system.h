#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/snapshot.h"
#include "inventory/slurm_scheduler.h"
#include "process.h"
#include "slurm_cluster.h"

namespace monkeytree {

/// A real Slurm with a controller and an agent for each node, all as processes of their own, and
/// training jobs of stand-in workers.
class LiveSystem {
 public:
  struct Options {
    SlurmClusterOptions slurm;
    std::string mode = "enforce";
    std::string uplinks = "1";  ///< a number, or a whole table (rack,uplinks)
    int rings = 0;              ///< of each group; 0: as many as ranks of a worker
    std::string more;           ///< lines for the controller's configuration
    std::string etcd;           ///< an endpoint, by which two controllers share; "": there is one
    /// Where the agent of a node runs, and how.
    struct Place {
      std::string space;               ///< a path for nsenter --net; "": ours
      std::string data = "127.0.0.1";  ///< the node's address that reaches the fabric
    };
    std::function<Place(const std::string& node)> place = [](const std::string&) {
      return Place();
    };
  };
  explicit LiveSystem(const Options& options);
  ~LiveSystem();

  SlurmCluster& slurm() { return *slurm_; }
  const std::string& folder() const { return slurm_->folder(); }
  std::string file(const std::string& name) const { return folder() + "/live/" + name; }
  std::string uplinks_file() const { return file("uplinks.csv"); }  ///< where they are a table

  void start_controller(size_t which = 0);
  void kill_controller(size_t which = 0);  ///< as power would
  void stop_controller(size_t which = 0);  ///< as systemd would
  /// Waits until one of two leads that is not `except`. It is asked from then on.
  size_t await_leader(std::optional<size_t> except = std::nullopt);
  /// `more`: lines for its configuration.
  void start_agent(const std::string& node, const std::string& more = "");
  void kill_agent(const std::string& node);

  /// A job of one stand-in worker on each node; it ends by itself after the iterations.
  std::string submit(const std::vector<std::string>& nodes, int iterations);
  /// The same with another program, which is run on each node; with variables added to its
  /// environment.
  std::string launch(const std::vector<std::string>& nodes, const std::string& command,
                     const std::map<std::string, std::string>& environment = {});
  /// A batch job on nodes of Slurm's choice, one stand-in worker on each; it ends by itself. ""
  /// where Slurm does not take it.
  std::string submit_batch(int nodes, int iterations);
  /// Tells the controller that something has happened, as the epilog would.
  void notify();

  // Of several controllers, the one that is asked: at first number 0.

  /// A page of the controller's interface, "" where it does not answer.
  std::string get(const std::string& path);
  /// With the token.
  int post(const std::string& path, const std::string& body = "");
  /// The number at a JSON pointer of a page; `otherwise` where there is none.
  double number(const std::string& path, const std::string& pointer, double otherwise);

  /// What Slurm says, as a snapshot; degrees over the bound are counted from it.
  Snapshot books();
  int excess();
  /// How many nodes Slurm's books give the job.
  size_t booked_nodes(const std::string& job);
  /// All rows of the accounting database, but for what Slurm sums up by the clock.
  std::string database();

  std::string state(const std::string& job);
  /// Iterations that all workers of the job have done.
  int64_t iterations(const std::string& job, int workers);
  /// Checks the logs of a job: each worker has done each iteration once, in order, in one process
  /// at a time, and all sums agree. "" or what is wrong. Without `iterations` it still runs.
  std::string check_logs(const std::string& job, int workers,
                         std::optional<int> iterations = std::nullopt);
  /// What workers have found that met another on their node, "" where none did.
  std::string double_booked() const;
  /// On how many nodes the worker has run, by its log.
  int places(const std::string& job, int worker);
  /// What went wrong, for a failed test: the ends of all logs.
  std::string logs() const;

 private:
  void write_configuration(size_t controller) const;
  std::string uplinks() const;
  SlurmSettings slurm_settings() const;
  std::string page(size_t controller, const std::string& path) const;
  /// What every job asks Slurm for.
  std::vector<std::string> resources(int nodes);
  std::string worker_command(int workers, int iterations) const;

  std::unique_ptr<SlurmCluster> slurm_;
  Options options_;
  struct Controller {
    int http_port = 0, agents_port = 0;
    Process process;
  };
  std::vector<Controller> controllers_;
  size_t asked_ = 0;
  std::map<std::string, Process> agents_, jobs_;
  std::vector<std::string> job_ids_;
};

}  // namespace monkeytree
