#include "state/frames.h"

#include <algorithm>

#include "state/checksum.h"
#include "state/layout.h"

namespace monkeytree {
namespace {

constexpr uint32_t kMagic = 0x3153544d;  // "MTS1": protocol and version

absl::Status damaged(absl::string_view what) { return absl::DataLossError(what); }

}  // namespace

uint64_t max_body_bytes(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return 512;
    case FrameType::kReply:
      return kMaxMessageBytes + 16;
    case FrameType::kLayout:
      return kMaxDirectoryBytes;
    case FrameType::kProbe:
      return uint64_t{64} << 20;
    case FrameType::kBegin:
      return kMaxBuffers / 8;
    case FrameType::kHave:
      return (kMaxArenaBytes / kChunkBytes + kMaxBuffers) / 8;
    case FrameType::kChunk:
      return kChunkBytes;
    case FrameType::kFinish:
      return kMaxBuffers * 8;
    case FrameType::kReserve:
      return kMaxDirectoryBytes + 1024;
    case FrameType::kForward:
    case FrameType::kConfirm:
      return 4096;
    case FrameType::kStates:
      return uint64_t{16} << 20;
    case FrameType::kMemory:
      return uint64_t{64} << 10;
    case FrameType::kStreamEnd:
    case FrameType::kProgress:
      return 0;
  }
  return 0;
}

std::array<std::byte, FrameHeader::kBytes> encode_header(const FrameHeader& header) {
  std::array<std::byte, FrameHeader::kBytes> bytes{};
  const auto type = static_cast<uint32_t>(header.type);
  std::memcpy(bytes.data(), &kMagic, 4);
  std::memcpy(bytes.data() + 4, &type, 4);
  std::memcpy(bytes.data() + 8, &header.body_bytes, 8);
  std::memcpy(bytes.data() + 16, &header.argument, 8);
  std::memcpy(bytes.data() + 24, &header.body_sum, 8);
  const uint64_t sum = checksum(std::span(bytes).first(32));
  std::memcpy(bytes.data() + 32, &sum, 8);
  return bytes;
}

absl::StatusOr<FrameHeader> decode_header(std::span<const std::byte, FrameHeader::kBytes> bytes) {
  uint32_t magic = 0;
  uint32_t type = 0;
  uint64_t sum = 0;
  FrameHeader header;
  std::memcpy(&magic, bytes.data(), 4);
  std::memcpy(&type, bytes.data() + 4, 4);
  std::memcpy(&header.body_bytes, bytes.data() + 8, 8);
  std::memcpy(&header.argument, bytes.data() + 16, 8);
  std::memcpy(&header.body_sum, bytes.data() + 24, 8);
  std::memcpy(&sum, bytes.data() + 32, 8);
  if (magic != kMagic) return damaged("the peer does not speak this protocol");
  if (sum != checksum(bytes.first(32))) return damaged("a frame was damaged on the way");
  if (type < static_cast<uint32_t>(FrameType::kHello) ||
      type > static_cast<uint32_t>(FrameType::kStates)) {
    return damaged("a frame of an unknown type");
  }
  header.type = static_cast<FrameType>(type);
  if (header.body_bytes > max_body_bytes(header.type)) return damaged("a frame is too long");
  return header;
}

std::string encode_hello(const Hello& hello) {
  WireWriter out;
  out.number(static_cast<uint64_t>(hello.role));
  out.text(hello.token);
  out.number(hello.part);
  out.number(hello.session);
  return out.body();
}

absl::StatusOr<Hello> decode_hello(std::string_view body) {
  WireReader in(body);
  Hello hello;
  const uint64_t role = in.number();
  hello.token = in.text(256);
  hello.part = in.number();
  hello.session = in.number();
  if (!in.complete() || role < 1 || role > 3) return damaged("a greeting that does not hold");
  hello.role = static_cast<Role>(role);
  return hello;
}

std::string encode_status(const absl::Status& status) {
  WireWriter out;
  out.number(static_cast<uint64_t>(status.raw_code()));
  const std::string_view message(status.message().data(), status.message().size());
  out.text(message.substr(0, kMaxMessageBytes));
  return out.body();
}

absl::Status decode_status(std::string_view body) {
  WireReader in(body);
  const uint64_t code = in.number();
  const std::string message = in.text(kMaxMessageBytes);
  if (!in.complete() || code > static_cast<uint64_t>(absl::StatusCode::kUnauthenticated)) {
    return damaged("a reply that does not hold");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

std::string encode_bits(const std::vector<bool>& bits) {
  std::string body((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) body[i / 8] = static_cast<char>(body[i / 8] | (1 << (i % 8)));
  }
  return body;
}

absl::StatusOr<std::vector<bool>> decode_bits(std::string_view body, size_t count) {
  if (body.size() != (count + 7) / 8) return damaged("a list of bits of the wrong length");
  std::vector<bool> bits(count);
  for (size_t i = 0; i < count; ++i) bits[i] = ((body[i / 8] >> (i % 8)) & 1) != 0;
  return bits;
}

std::string encode_reserve(const ReserveRequest& request) {
  WireWriter out;
  out.text(request.key);
  out.number(request.buffers);
  out.text(request.layout);
  return out.body();
}

absl::StatusOr<ReserveRequest> decode_reserve(std::string_view body) {
  WireReader in(body);
  ReserveRequest request;
  request.key = in.text(kMaxKeyBytes);
  request.buffers = in.number();
  request.layout = in.text(kMaxDirectoryBytes);
  if (!in.complete()) return damaged("a reservation that does not hold");
  return request;
}

std::string encode_forward(const ForwardRequest& request) {
  WireWriter out;
  out.text(request.key);
  out.text(request.endpoint);
  out.text(request.token);
  out.number(request.timeout_ms);
  out.number(request.streams);
  out.number(request.min_bytes_per_s);
  return out.body();
}

absl::StatusOr<ForwardRequest> decode_forward(std::string_view body) {
  WireReader in(body);
  ForwardRequest request;
  request.key = in.text(kMaxKeyBytes);
  request.endpoint = in.text(1024);
  request.token = in.text(256);
  request.timeout_ms = in.number();
  request.streams = in.number();
  request.min_bytes_per_s = in.number();
  if (!in.complete()) return damaged("a request to forward that does not hold");
  return request;
}

}  // namespace monkeytree
