#include <cstdlib>
#include <string_view>

#include "routing/hash_model.h"

/// Whatever the text: a model, or a message; and a model's answer is an uplink.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace monkeytree;
  Diagnostics diagnostics;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::optional<HashModel> model = parse_hash_model(text, "fuzz.yaml", diagnostics);
  if (model.has_value() == diagnostics.has_errors()) std::abort();
  if (!model) return 0;
  for (const int uplinks : {1, 3, 64}) {
    const PacketHeader header{0x0a000002, 0x0a030102, Protocol::kUdp, 50000, 4791};
    const int uplink = predicted_uplink(*model, header, uplinks);
    if (uplink < 0 || uplink >= uplinks) std::abort();
  }
  return 0;
}
