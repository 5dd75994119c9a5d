#include "cluster/worker_name.h"

#include <fmt/format.h>

namespace monkeytree {

std::string to_string(const WorkerName& name) {
  return fmt::format("{}/{}/{}", name.job, name.group, name.worker);
}

}  // namespace monkeytree
