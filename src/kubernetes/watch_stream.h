#pragma once

#include <simdjson.h>

#include <functional>
#include <string>
#include <string_view>

namespace monkeytree {

/// One line of a watch.
struct KubeWatchEvent {
  enum class Kind : unsigned char { kPut, kDeleted, kBookmark };
  Kind kind = Kind::kPut;
  simdjson::dom::element object;
  std::string_view version;  ///< resourceVersion of the object
};

/// A watch as it comes from the server, in pieces of any size, as events.
class KubeWatchStream {
 public:
  enum class End : unsigned char {
    kNone,   ///< goes on
    kGone,   ///< 410: what came between is lost, list anew
    kFault,  ///< the server reports an error, or this is no watch: see fault()
  };

  /// Largest event.
  static constexpr size_t kMaxEventBytes = size_t{64} << 20;

  explicit KubeWatchStream(std::function<void(const KubeWatchEvent&)> take)
      : take_(std::move(take)) {}

  /// False once it has ended; what comes then is not read. Amortised O(bytes).
  bool feed(std::string_view bytes);

  End end() const { return end_; }
  const std::string& fault() const { return fault_; }
  /// Bytes of an event that has not come whole: a watch that ends so has lost it.
  size_t pending() const { return buffer_.size(); }

 private:
  bool line(std::string_view text);
  bool stop(End end, std::string fault);

  std::function<void(const KubeWatchEvent&)> take_;
  simdjson::dom::parser parser_;
  std::string buffer_;  ///< the front of a line
  End end_ = End::kNone;
  std::string fault_;
};

}  // namespace monkeytree
