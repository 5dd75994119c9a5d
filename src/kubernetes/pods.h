#pragma once

#include <simdjson.h>

#include <optional>

#include "kubernetes/objects.h"

namespace monkeytree {

/// nullopt where the pod has ended, holds no devices, or has a fault.
std::optional<KubePod> read_kube_pod(simdjson::dom::element object, const KubeReadRules& rules,
                                     std::optional<KubeFault>& fault);

/// The object that controls this one; its kind is "" where none does.
KubeOwnerRef controller_of(simdjson::dom::element object);

}  // namespace monkeytree
