#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What travels between two sides of a transfer: frames of a header and a body, both with
/// checksums, little-endian. docs/state.md draws the conversations. Nothing here touches a socket.
namespace monkeytree {

enum class FrameType : uint32_t {
  kHello = 1,  ///< the first frame of each connection: who, and what for
  kReply,      ///< a status; the argument depends on the question
  kLayout,     ///< the sender's layout; argument: number of buffers
  kProbe,      ///< bytes to measure the path with; argument: how many come over ucx instead
  kMemory,     ///< the sender's memfd comes with it (shm); asks for, and tells, an address (ucx)
  kBegin,      ///< argument: epoch; body: a bit per buffer that this part brings
  kHave,       ///< a bit per chunk that has arrived and been checked
  kChunk,      ///< argument: number of the chunk; body: its bytes, after which its checksum comes
  kStreamEnd,  ///< this stream brings no more
  kFinish,     ///< checksums of the buffers that this part brought
  kProgress,   ///< the other side is at work
  kReserve,    ///< of staging, as those below
  kForward,
  kConfirm,
  kStates,
};

struct FrameHeader {
  static constexpr size_t kBytes = 40;

  FrameType type = FrameType::kReply;
  uint64_t body_bytes = 0;
  uint64_t argument = 0;
  uint64_t body_sum = 0;  ///< checksum of the body; 0 for a chunk
};

/// The longest body that a frame of this type may have.
uint64_t max_body_bytes(FrameType type);

std::array<std::byte, FrameHeader::kBytes> encode_header(const FrameHeader& header);
/// kDataLoss: damaged on the way, or not of this protocol. Never gives a body above the limit.
absl::StatusOr<FrameHeader> decode_header(std::span<const std::byte, FrameHeader::kBytes> bytes);

/// Appends numbers and strings to a body.
class WireWriter {
 public:
  void number(uint64_t value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(std::string_view value) {
    number(value.size());
    body_ += value;
  }
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Reads them back; after a fault it gives zeros and ok() is false.
class WireReader {
 public:
  explicit WireReader(std::string_view body) : rest_(body) {}
  uint64_t number() {
    uint64_t value = 0;
    if (rest_.size() < sizeof(value)) return fail();
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  std::string text(size_t limit) {
    const uint64_t bytes = number();
    if (bytes > limit || bytes > rest_.size()) {
      fail();
      return "";
    }
    std::string value(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return value;
  }
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  /// All was read, and nothing is left.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  uint64_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }
  std::string_view rest_;
  bool ok_ = true;
};

enum class Role : uint64_t { kControl = 1, kStream = 2, kStaging = 3 };

struct Hello {
  Role role = Role::kControl;
  std::string token;     ///< of the transfer; of kStaging: the access word
  uint64_t part = 0;     ///< which of several senders
  uint64_t session = 0;  ///< ties the streams to their control connection
};
std::string encode_hello(const Hello& hello);
absl::StatusOr<Hello> decode_hello(std::string_view body);

/// A status with its message, shortened to kMaxMessageBytes.
inline constexpr size_t kMaxMessageBytes = 2000;
std::string encode_status(const absl::Status& status);
/// The status that was sent, or kDataLoss.
absl::Status decode_status(std::string_view body);

/// Bits, eight to a byte, lowest first; those beyond `count` are 0.
std::string encode_bits(const std::vector<bool>& bits);
absl::StatusOr<std::vector<bool>> decode_bits(std::string_view body, size_t count);

struct ReserveRequest {
  std::string key;
  uint64_t buffers = 0;
  std::string layout;  ///< of encode_layout()
};
std::string encode_reserve(const ReserveRequest& request);
absl::StatusOr<ReserveRequest> decode_reserve(std::string_view body);

struct ForwardRequest {
  std::string key;
  std::string endpoint;
  std::string token;
  uint64_t timeout_ms = 0;
  uint64_t streams = 0;
  uint64_t min_bytes_per_s = 0;
};
std::string encode_forward(const ForwardRequest& request);
absl::StatusOr<ForwardRequest> decode_forward(std::string_view body);

inline constexpr size_t kMaxKeyBytes = 200;

}  // namespace monkeytree
