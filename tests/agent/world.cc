#include "world.h"

#include <unistd.h>

#include <filesystem>

namespace monkeytree {

World::World() {
  char name[] = "/tmp/monkeytree-agent-XXXXXX";
  folder_ = mkdtemp(name);
}

void World::remove_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

bool World::connected(const std::string& node) {
  for (const AgentReport& report : executor().agents()) {
    if (report.node == node) return report.connected;
  }
  return false;
}

}  // namespace monkeytree
