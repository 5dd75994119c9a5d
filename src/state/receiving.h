#pragma once

#include <functional>
#include <memory>

#include "state/connection.h"
#include "state/transfer.h"

namespace monkeytree {

/// What a staging server does with a connection that asks for staging; `access` is the word that
/// the client gave.
using StagingHandler = std::function<void(Connection& connection, const std::string& access)>;

/// Receiver::listen() for a process that also serves staging at the same addresses.
absl::StatusOr<std::unique_ptr<Receiver>> listen_with_staging(ReceiverOptions options,
                                                              StagingHandler handler);

}  // namespace monkeytree
