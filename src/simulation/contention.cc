#include "simulation/contention.h"

#include <algorithm>

namespace monkeytree {

Contention::Contention(const LeafSpine& fabric)
    : first_(2 * fabric.shape().gpus), links_(static_cast<size_t>(fabric.link_count() - first_)) {
  for (size_t i = 0; i < links_.size(); ++i) {
    const double capacity = fabric.capacity(LinkId(i + static_cast<size_t>(first_)));
    links_[i].limit = static_cast<int>(capacity / fabric.shape().link_bytes_per_us);
  }
}

void Contention::change(Link& link, int flows) {
  const bool before = link.flows > link.limit;
  link.flows += flows;
  if (before != (link.flows > link.limit)) {
    changed_.insert(changed_.end(), link.jobs.begin(), link.jobs.end());
  }
}

void Contention::add(int job, const std::vector<Load>& loads) {
  for (const Load& load : loads) {
    Link& link = at(load.link);
    change(link, load.flows);
    link.jobs.push_back(job);
  }
}

void Contention::remove(int job, const std::vector<Load>& loads) {
  for (const Load& load : loads) {
    Link& link = at(load.link);
    link.jobs.erase(std::find(link.jobs.begin(), link.jobs.end(), job));
    change(link, -load.flows);
  }
}

void Contention::add(LinkId link, int flows) { change(at(link), flows); }

std::vector<int> Contention::take_changed() {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return std::exchange(changed_, {});
}

}  // namespace monkeytree
