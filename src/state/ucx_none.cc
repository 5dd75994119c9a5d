#include "state/ucx_path.h"

/// For builds without UCX.
namespace monkeytree {

absl::Status ucx_status() {
  return absl::FailedPreconditionError(
      "this program was built without UCX (Debian: libucx-dev when building)");
}

absl::StatusOr<std::unique_ptr<UcxPath>> UcxPath::create() { return ucx_status(); }

}  // namespace monkeytree
