#include "network/leaf_spine.h"

#include <cassert>

namespace monkeytree {

LeafSpine::LeafSpine(const FabricShape& shape) : shape_(shape) {
  assert(shape.gpus > 0 && shape.gpus_per_rack > 0 && shape.spines > 0);
}

int LeafSpine::link_count() const { return 2 * shape_.gpus + 2 * shape_.racks() * shape_.spines; }

double LeafSpine::capacity(LinkId link) const {
  const bool fat = shape_.spray && link.value >= 2 * shape_.gpus;
  return fat ? shape_.link_bytes_per_us * shape_.spines : shape_.link_bytes_per_us;
}

LinkId LeafSpine::rack_up(int rack, int spine) const {
  assert(rack < shape_.racks() && (shape_.spray || (spine >= 0 && spine < shape_.spines)));
  return LinkId(2 * shape_.gpus + 2 * (rack * shape_.spines + (shape_.spray ? 0 : spine)));
}

LinkId LeafSpine::rack_down(int rack, int spine) const {
  return LinkId(rack_up(rack, spine).value + 1);
}

LeafSpine::Path LeafSpine::path(int from_host, int to_host, int spine) const {
  assert(from_host != to_host && from_host < shape_.gpus && to_host < shape_.gpus);
  const int from_rack = shape_.rack_of(from_host);
  const int to_rack = shape_.rack_of(to_host);
  if (from_rack == to_rack) return {{host_up(from_host), host_down(to_host)}, 2};
  return {{host_up(from_host), rack_up(from_rack, spine), rack_down(to_rack, spine),
           host_down(to_host)},
          4};
}

}  // namespace monkeytree
