#pragma once

#include <absl/status/status.h>

#include "kubernetes/cluster_watch.h"
#include "kubernetes/moves.h"
#include "kubernetes/moving_calls.h"

namespace monkeytree {

/// Kueue's books follow the move: the domain that no pod of the job is in any more becomes that of
/// the node it goes to, in the same place, since the k-th domain is of the k-th rank. Nothing where
/// Kueue does not book the job by domains, or books it so already. Aborted where its books have
/// changed meanwhile, FailedPrecondition where they are not what this could mend.
absl::Status follow_in_kueue(KubeCalls& calls, const KubeClusterWatch& watch, const KubeMove& move);

}  // namespace monkeytree
