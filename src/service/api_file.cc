#include "service/api_file.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cluster/snapshot_json.h"
#include "control/controller.h"
#include "routing/routes.h"
#include "service/api.h"
#include "service/api_common.h"
#include "service/api_json.h"
#include "service/page.h"

namespace monkeytree {
FileApi::FileApi(Snapshot snapshot, std::string name, double now_s, TryApi::Limits limits)
    : snapshot_(std::move(snapshot)), try_(limits) {
  ControllerView view;
  view.ready = true;
  view.scheduler = std::move(name);
  view.read_only = "a file";
  view.observed_s = snapshot_.time_s.value_or(now_s);
  view.snapshot = std::make_shared<const Snapshot>(snapshot_);
  view.routes = std::make_shared<const std::vector<PreviousRoute>>(
      check_routable(snapshot_).ok() ? named_routes(snapshot_, monkeytree::routes(snapshot_))
                                     : std::vector<PreviousRoute>());
  status_ = status_json(view, now_s, /*insecure=*/false, "view");
  snapshot_text_ = write_snapshot(snapshot_);
  fragmentation_ = fragmentation_json(view);
  routes_ = routes_json(view);
}

HttpResponse FileApi::answer(const HttpRequest& request) {
  if (std::optional<HttpResponse> no = refuse_foreign(request, /*loopback=*/true)) {
    return *std::move(no);
  }
  const bool trying = TryApi::slow(request);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (trying ? request.method != "POST" : !reads) {
    HttpResponse wrong = http_error(405, trying ? "expected POST" : "expected GET");
    wrong.headers["Allow"] = trying ? "POST" : "GET";
    return wrong;
  }
  if (request.path == TryApi::kWhatIf) return try_.what_if(request, &snapshot_);
  if (request.path == TryApi::kImport) return try_.import(request);
  return request.path.starts_with("/api/") ? get(request.path) : page_answer(request);
}

HttpResponse FileApi::get(std::string_view path) const {
  if (path == "/api/v1/status") return json_answer(status_);
  if (path == "/api/v1/snapshot") return json_answer(snapshot_text_);
  if (path == "/api/v1/fragmentation") return json_answer(fragmentation_);
  if (path == "/api/v1/routes") return json_answer(routes_);
  if (path == "/api/v1/openapi.json") return json_answer(std::string(kOpenApi));
  return http_error(404, fmt::format("this is the view of a file, without a controller; there is "
                                     "no {}",
                                     quote(path)));
}

}  // namespace monkeytree
