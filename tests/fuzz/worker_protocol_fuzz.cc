// Any bytes as a packet of a worker or of an agent: refused with a reason, or a message that is
// written and read back as the same.

#include <cstdint>
#include <string>
#include <string_view>

#include "bytes.h"
#include "wire/worker_protocol.h"

using namespace monkeytree;  // NOLINT: a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view packet(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<FromWorker> from = read_from_worker(packet);
  if (from.ok()) {
    const std::string written = write_packet(*from);
    // What is written escapes more and may outgrow a packet.
    if (written.size() <= kMaxWorkerPacket) require(read_from_worker(written).value() == *from);
  } else {
    require(!from.status().message().empty());
  }
  const absl::StatusOr<ToWorker> to = read_to_worker(packet);
  if (to.ok()) {
    const std::string written = write_packet(*to);
    if (written.size() <= kMaxWorkerPacket) require(read_to_worker(written).value() == *to);
  } else {
    require(!to.status().message().empty());
  }
  require(!(from.ok() && to.ok()));
  return 0;
}
