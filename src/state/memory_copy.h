#pragma once

#include <absl/status/status.h>

#include <span>

#include "state/arena.h"
#include "state/connection.h"
#include "state/incoming.h"

namespace monkeytree {

/// Copies buffers from a source arena of the same machine into an expected transfer, by several
/// threads where there is much; tells the sender now and then that it is at work.
/// kFailedPrecondition: the source is not committed at `epoch`, or goes on before the copy is done;
/// kDataLoss: bytes are not those of its recorded checksums.
absl::Status copy_memory(const Arena& source, uint64_t epoch, std::span<const size_t> buffers,
                         Incoming& incoming, Connection& connection, int threads);

}  // namespace monkeytree
