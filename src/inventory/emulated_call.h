#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "inventory/scheduler.h"

/// The JSON of calls to an emulated cluster in another process; for emulated_socket.h alone.
namespace monkeytree {

/// One call; what it does not need stays empty.
struct EmulatedCall {
  std::string name;  ///< of the function
  Hold hold;         ///< or its worker and node
  std::string reservation;
  std::vector<std::string> nodes;  ///< of a reservation, or the order
  WorkerCommand command;
};

struct EmulatedReply {
  std::string text;
  std::vector<std::string> nodes;
  Observation seen;  ///< hold() answers with its only hold
};

std::string write_emulated_call(const EmulatedCall& call, int64_t timeout_ms);
/// The call's own error, or Internal for a reply that cannot be read.
absl::StatusOr<EmulatedReply> read_emulated_reply(const std::string& text);

}  // namespace monkeytree
