#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "hook.h"
#include "state/fd.h"

namespace monkeytree {

/// Workers of one group in a ring of TCP connections, which find each other by files in a shared
/// folder. While it waits, the hook is served.
class Ring {
 public:
  /// Listens at `address` for the life of the process.
  static absl::StatusOr<Ring> listen(Hook& hook, std::string folder, std::string address,
                                     int workers);

  /// Connects to the neighbours of this generation. Cancelled: released meanwhile.
  absl::Status set_up(const std::string& generation);

  struct Word {
    uint64_t sum = 0;      ///< over all workers
    uint64_t largest = 0;  ///< of all workers
  };
  /// One collective. FailedPrecondition: a neighbour is at another iteration.
  absl::StatusOr<Word> reduce(int64_t iteration, Word own);

 private:
  explicit Ring(Hook& hook) : hook_(&hook) {}
  std::string card(const std::string& generation, int worker) const;
  absl::Status publish(const std::string& generation);
  absl::StatusOr<Fd> connect_right(const std::string& generation);
  absl::StatusOr<Fd> accept_left(const std::string& generation);
  absl::Status exchange(const void* out, void* in, size_t bytes);

  Hook* hook_;
  std::string folder_, address_;
  int workers_ = 1, port_ = 0;
  Fd listening_, left_, right_;
};

}  // namespace monkeytree
