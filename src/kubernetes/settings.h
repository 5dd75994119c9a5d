#pragma once

#include <string>

#include "kubernetes/objects.h"
#include "kubernetes/racks.h"
#include "kubernetes/webhook.h"

namespace monkeytree {

/// A running cluster, and how it is read.
struct KubernetesSettings {
  std::string kubeconfig;  ///< "": as a pod of the cluster
  std::string context;     ///< of it; "": its current one
  KubeRackRules racks;
  KubeReadRules reading;
  std::string uplinks;               ///< a number, a file, or ""
  KubeWebhookSettings webhook;       ///< none: nothing is moved
  std::string space = "monkeytree";  ///< namespace of what is kept of moves
};

}  // namespace monkeytree
