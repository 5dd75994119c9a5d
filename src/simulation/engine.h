#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "network/leaf_spine.h"
#include "routing/sglb.h"
#include "simulation/program.h"
#include "simulation/time.h"

/// What carries jobs and their flows forward in time. Who runs where, by which spine and when a job
/// pauses is decided outside; an engine says when something has ended.
namespace monkeytree {

/// Spine of each of a program's pairs; -1 where both ranks stand in one rack. Under SGLB ignored.
using PairSpines = std::vector<int16_t>;

/// State of a worker on its way; always over NICs, since it goes to another machine.
struct Transfer {
  int job = 0;  ///< for notices and for the order of events
  int from_host = 0, to_host = 0;
  int64_t bytes = 0;
  int spine = -1;  ///< -1 within a rack
};

/// What an engine reports. At one time: stopped and finished jobs, then transfers; by index.
struct Notice {
  enum Kind : uint8_t {
    kStopped,   ///< the job has reached the end of an iteration after stop()
    kFinished,  ///< the job has run all its iterations
    kTransfer,  ///< the transfer has ended
  };
  Kind kind = kStopped;
  int index = 0;  ///< job or transfer
  friend auto operator<=>(const Notice&, const Notice&) = default;
};

struct EngineCounters {
  int64_t iterations = 0;       ///< run to their end, skipped ones included
  int64_t skipped = 0;          ///< of these, passed over without looking at a flow
  int64_t flows = 0;            ///< flows whose rate was computed
  int64_t contended_flows = 0;  ///< of these, at less than their full rate at some time
};

/// Event order at one time: flow ends, flow starts, iteration ends, run ends; then what the caller
/// does; then rates are settled once. Bytes left are integers, re-based when a rate changes; a flow
/// ends at the first whole µs at which its bytes have passed. So nothing depends on when the clock
/// started.
class Engine {
 public:
  virtual ~Engine() = default;

  /// The time of the next event, kNever where nothing moves. Settles rates first.
  virtual Time next() = 0;
  /// Goes to `time`, at most next(), handling the events there; appends what has ended.
  virtual void advance(Time time, std::vector<Notice>& notices) = 0;

  /// A job begins its first iteration now. `hosts` gives each rank's host. `program` must outlive
  /// the job.
  virtual void start(int job, const Program& program, std::span<const int> hosts, PairSpines spines,
                     int64_t iterations) = 0;
  /// Asks a running job to stop at the first end of an iteration after now; one that ends its last
  /// iteration there finishes instead.
  virtual void stop(int job) = 0;
  /// A stopped job goes on, with the iterations it has left, on these hosts.
  virtual void resume(int job, std::span<const int> hosts, PairSpines spines) = 0;
  /// New paths, at once, also for flows under way.
  virtual void set_routes(int job, PairSpines spines) = 0;

  /// Starts a transfer; its number is one more than that of the last one.
  virtual int transfer(const Transfer& transfer) = 0;
  virtual void set_transfer_spine(int transfer, int spine) = 0;

  virtual const EngineCounters& counters() const = 0;
};

struct EngineOptions {
  FabricShape fabric;
  /// Flows between racks choose their spine when they start and again at its ticks, instead of the
  /// spines that the caller gives. Transfers too.
  std::optional<SglbRule> sglb;
};

/// Every flow of every iteration of every job, all rates anew at each change. The referee.
std::unique_ptr<Engine> make_plain_engine(const EngineOptions& options);

/// The same results; looks only at flows that may meet others.
std::unique_ptr<Engine> make_fast_engine(const EngineOptions& options);

}  // namespace monkeytree
