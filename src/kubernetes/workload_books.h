#pragma once

#include <simdjson.h>

#include <string>
#include <vector>

#include "kubernetes/objects.h"

/// Kueue's books: in which domains of its topology it has admitted the pods of a job.
namespace monkeytree {

/// Namespace and name are left to the caller. Reads both forms: `domains` (v1beta1) and `slices`
/// (v1beta2).
KubeWorkload read_kube_workload(simdjson::dom::element object);

/// Where the pods are in other domains than the books say, why they must stay; "" where they are
/// not, or where the books name no domains. `pods` are all of the job's that are bound.
std::string books_fault(const KubeWorkload& workload, const std::vector<const KubePod*>& pods,
                        const KubeFacts& facts);

/// Why the books could not follow a move: a domain can only be put in the place of another where it
/// is of one pod. "" where they could.
std::string books_stay(const KubeWorkload& workload);

}  // namespace monkeytree
