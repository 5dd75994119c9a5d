// What a hostile peer may send: frames of any bytes are read or refused, and what is read is
// written back as the same bytes. The first byte chooses the reader.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "bytes.h"
#include "state/frames.h"
#include "state/layout.h"
#include "state/transfer.h"

using namespace monkeytree;

namespace {

void read_header(std::string_view body) {
  std::array<std::byte, FrameHeader::kBytes> bytes{};
  std::copy_n(reinterpret_cast<const std::byte*>(body.data()), std::min(body.size(), bytes.size()),
              bytes.begin());
  const absl::StatusOr<FrameHeader> header = decode_header(bytes);
  if (!header.ok()) return;
  require(header->body_bytes <= max_body_bytes(header->type));
  require(encode_header(*header) == bytes);
}

void read_layout(std::string_view body) {
  if (body.size() < 4) return;
  const auto count = static_cast<size_t>(static_cast<uint8_t>(body[0]));
  const absl::StatusOr<Layout> layout = decode_layout(body.substr(1), count);
  if (!layout.ok()) return;
  require(encode_layout(*layout) == body.substr(1));
  const absl::StatusOr<Geometry> geometry = geometry_of(*layout);
  if (!geometry.ok()) return;
  for (size_t i = 0; i < count; ++i) {
    require(geometry->offsets[i] + (*layout)[i].bytes <= geometry->total_bytes);
  }
}

void read_endpoint(std::string_view body) {
  const absl::StatusOr<Endpoint> endpoint = Endpoint::parse(body);
  if (!endpoint.ok()) return;
  const absl::StatusOr<Endpoint> again = Endpoint::parse(endpoint->text());
  require(again.ok() && *again == *endpoint);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      read_header(body);
      break;
    case 1:
      read_layout(body);
      break;
    case 2:
      if (const auto hello = decode_hello(body); hello.ok()) require(encode_hello(*hello) == body);
      break;
    case 3:
      require(decode_status(body).message().size() <= kMaxMessageBytes);
      break;
    case 4:
      if (const auto bits = decode_bits(body, body.size() * 8); bits.ok()) {
        require(encode_bits(*bits) == body);
      }
      break;
    case 5:
      if (const auto request = decode_reserve(body); request.ok()) {
        require(encode_reserve(*request) == body);
      }
      break;
    case 6:
      if (const auto request = decode_forward(body); request.ok()) {
        require(encode_forward(*request) == body);
      }
      break;
    default:
      read_endpoint(body);
  }
  return 0;
}
