#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cluster/snapshot.h"
#include "service/api_try.h"
#include "service/http_message.h"

namespace monkeytree {

/// The part of the HTTP interface that needs no controller: the pages, and a snapshot from a file
/// read and tried as a live one is. Thread-safe; nothing here changes anything.
class FileApi {
 public:
  /// `name` says where the snapshot is from.
  FileApi(Snapshot snapshot, std::string name, double now_s, TryApi::Limits limits);

  HttpResponse answer(const HttpRequest& request);
  size_t most_body(const HttpRequest& request) const { return try_.most_body(request); }

 private:
  HttpResponse get(std::string_view path) const;

  const Snapshot snapshot_;
  /// What does not change is written once.
  std::string status_, snapshot_text_, fragmentation_, routes_;
  TryApi try_;
};

}  // namespace monkeytree
