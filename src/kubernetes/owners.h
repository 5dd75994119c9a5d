#pragma once

#include <simdjson.h>

#include "kubernetes/objects.h"

namespace monkeytree {

/// Why pods of that kind of owner must stay, by what its own object says; namespace and name are
/// left to the caller.
KubeOwner read_kube_owner(KubeKind kind, simdjson::dom::element object);

}  // namespace monkeytree
