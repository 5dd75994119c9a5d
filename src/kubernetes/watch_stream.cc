#include "kubernetes/watch_stream.h"

#include <fmt/format.h>

#include "base/json.h"
#include "kubernetes/reading.h"

namespace monkeytree {

bool KubeWatchStream::feed(std::string_view bytes) {
  while (end_ == End::kNone) {
    const size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) break;
    if (buffer_.empty()) {
      line(bytes.substr(0, newline));
    } else {
      buffer_.append(bytes.substr(0, newline));
      line(buffer_);
      buffer_.clear();
    }
    bytes.remove_prefix(newline + 1);
  }
  if (end_ != End::kNone) return false;
  buffer_.append(bytes);
  if (buffer_.size() > kMaxEventBytes) return stop(End::kFault, "an event is too long");
  return true;
}

bool KubeWatchStream::stop(End end, std::string fault) {
  end_ = end;
  fault_ = std::move(fault);
  buffer_.clear();
  return false;
}

bool KubeWatchStream::line(std::string_view text) {
  if (text.find_first_not_of(" \t\r") == std::string_view::npos) return true;
  if (text.size() > kMaxEventBytes) return stop(End::kFault, "an event is too long");
  simdjson::dom::element root;
  const simdjson::error_code code = parser_.parse(text.data(), text.size()).get(root);
  if (code != simdjson::SUCCESS) {
    return stop(End::kFault,
                fmt::format("an event is not JSON: {}", simdjson::error_message(code)));
  }
  const std::string_view type = kube_text(root, {"type"});
  const auto object = kube_at(root, {"object"});
  if (type == "ERROR") {
    if (kube_number(object, {"code"}) == 410 || kube_text(object, {"reason"}) == "Expired") {
      return stop(End::kGone, "");
    }
    const std::string_view message = kube_text(object, {"message"});
    return stop(End::kFault, fmt::format("the server reports {}", quote(message)));
  }
  KubeWatchEvent event;
  if (type == "ADDED" || type == "MODIFIED") {
    event.kind = KubeWatchEvent::Kind::kPut;
  } else if (type == "DELETED") {
    event.kind = KubeWatchEvent::Kind::kDeleted;
  } else if (type == "BOOKMARK") {
    event.kind = KubeWatchEvent::Kind::kBookmark;
  } else {
    return stop(End::kFault, fmt::format("an event is of the type {}", quote(type)));
  }
  event.version = kube_text(object, {"metadata", "resourceVersion"});
  if (!object || event.version.empty()) {
    return stop(End::kFault, "an event has no object with a resourceVersion");
  }
  event.object = *object;
  take_(event);
  return true;
}

}  // namespace monkeytree
