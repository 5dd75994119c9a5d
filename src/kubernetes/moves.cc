#include "kubernetes/moves.h"

#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "kubernetes/pods.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;
using simdjson::dom::element;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json review(const std::string& uid, Json response) {
  response["uid"] = uid;
  return {{"kind", "AdmissionReview"},
          {"apiVersion", "admission.k8s.io/v1"},
          {"response", std::move(response)}};
}

/// Steps of a JSON Patch.
class Patch {
 public:
  void add(std::string path, Json value) {
    steps_.push_back({{"op", "add"}, {"path", std::move(path)}, {"value", std::move(value)}});
  }
  /// A field of an object, which is made where there is none.
  void set(const std::string& path, bool there, std::string_view key, const std::string& value) {
    if (!there) return add(path, Json{{std::string(key), value}});
    add(path + "/" + escaped(key), value);
  }
  const Json& steps() const { return steps_; }

 private:
  static std::string escaped(std::string_view key) {
    std::string out;
    for (const char c : key) {
      out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    return out;
  }
  Json steps_ = Json::array();
};

Json environment_of(const KubeMove& move) {
  return Json::array(
      {{{"name", "MONKEYTREE_SUCCESSOR_OF"}, {"value", move.successor_of}},
       {{"name", "MONKEYTREE_JOB"}, {"value", move.worker.job}},
       {{"name", "MONKEYTREE_GROUP"}, {"value", std::to_string(move.worker.group)}},
       {{"name", "MONKEYTREE_WORKER"}, {"value", std::to_string(move.worker.worker)}}});
}

}  // namespace

bool KubeMove::replaced_by(const KubeOwnerRef& by, std::string_view in_space, std::string_view name,
                           std::string_view completion_index) const {
  if (in_space != space || by != owner) return false;
  if (owner.kind == "Job" && owner.group == "batch") {
    return index.empty() || completion_index == index;
  }
  return name == pod;  // a name that comes back
}

std::string kube_move_id(const WorkerName& worker) {
  return "move-" + sha256(to_string(worker)).substr(0, 20);
}

std::string write_kube_move(const KubeMove& move, const std::string& in_space) {
  Json meta = {{"name", move.id},
               {"namespace", in_space},
               {"labels", {{"app.kubernetes.io/managed-by", "monkeytree"}}}};
  if (!move.version.empty()) meta["resourceVersion"] = move.version;
  return text_of({{"kind", "ConfigMap"},
                  {"apiVersion", "v1"},
                  {"metadata", std::move(meta)},
                  {"data",
                   {{"job", move.worker.job},
                    {"group", std::to_string(move.worker.group)},
                    {"worker", std::to_string(move.worker.worker)},
                    {"namespace", move.space},
                    {"owner-kind", move.owner.kind},
                    {"owner-group", move.owner.group},
                    {"owner-name", move.owner.name},
                    {"pod", move.pod},
                    {"uid", move.uid},
                    {"from", move.from},
                    {"index", move.index},
                    {"place", move.place},
                    {"siblings", move.siblings},
                    {"to", move.to},
                    {"hostname", move.hostname},
                    {"successor-of", move.successor_of}}}});
}

std::optional<KubeMove> read_kube_move(element object) {
  const auto field = [&](std::string_view name) {
    return std::string(kube_text(object, {"data", name}));
  };
  KubeMove move;
  move.id = kube_text(object, {"metadata", "name"});
  move.version = kube_text(object, {"metadata", "resourceVersion"});
  move.worker.job = field("job");
  if (!absl::SimpleAtoi(field("group"), &move.worker.group) ||
      !absl::SimpleAtoi(field("worker"), &move.worker.worker) ||
      move.id != kube_move_id(move.worker)) {
    return std::nullopt;
  }
  move.space = field("namespace");
  move.owner = {field("owner-kind"), field("owner-group"), field("owner-name")};
  move.pod = field("pod");
  move.uid = field("uid");
  move.from = field("from");
  move.index = field("index");
  move.place = field("place");
  move.siblings = field("siblings");
  move.to = field("to");
  move.hostname = field("hostname");
  move.successor_of = field("successor-of");
  return move;
}

std::optional<KubeAdmission> read_kube_admission(std::string_view review, std::string& uid) {
  simdjson::dom::parser parser;
  element root;
  if (parser.parse(review.data(), review.size()).get(root) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  uid = kube_text(root, {"request", "uid"});
  const auto pod = kube_at(root, {"request", "object"});
  if (!pod || kube_text(root, {"request", "kind", "kind"}) != "Pod" ||
      kube_text(root, {"request", "operation"}) != "CREATE") {
    return std::nullopt;
  }
  KubeAdmission asked;
  asked.uid = uid;
  asked.space = kube_text(root, {"request", "namespace"});
  asked.name = kube_text(*pod, {"metadata", "name"});
  asked.owner = controller_of(*pod);
  asked.index = kube_text(*pod, {"metadata", "annotations", kIndexAnnotation});
  return asked;
}

std::string admit(const std::string& uid) { return text_of(review(uid, {{"allowed", true}})); }

std::string refuse_admission(const std::string& uid, const std::string& why) {
  return text_of(review(
      uid,
      {{"allowed", false}, {"status", {{"code", 503}, {"message", why}, {"status", "Failure"}}}}));
}

std::string admit_to(const std::string& text, const KubeMove& move) {
  simdjson::dom::parser parser;
  element root;
  if (parser.parse(text).get(root) != simdjson::SUCCESS) return "";
  const auto pod = kube_at(root, {"request", "object"});
  Patch patch;
  const bool annotated = kube_at(pod, {"metadata", "annotations"}).has_value();
  patch.set("/metadata/annotations", annotated, kSuccessorAnnotation, move.successor_of);
  patch.set("/metadata/annotations", true, kPlaceAnnotation, move.place);
  patch.set("/spec/nodeSelector", kube_at(pod, {"spec", "nodeSelector"}).has_value(),
            "kubernetes.io/hostname", move.hostname);
  if (!kube_at(pod, {"spec", "tolerations"})) patch.add("/spec/tolerations", Json::array());
  patch.add("/spec/tolerations/-",
            {{"key", kHoldTaint}, {"operator", "Exists"}, {"effect", "NoSchedule"}});
  size_t index = 0;
  for (const element container : kube_items(kube_at(pod, {"spec", "containers"}))) {
    const std::string path = fmt::format("/spec/containers/{}/env", index++);
    if (!kube_at(container, {"env"})) patch.add(path, Json::array());
    for (const Json& variable : environment_of(move)) patch.add(path + "/-", variable);
  }
  return text_of(review(std::string(kube_text(root, {"request", "uid"})),
                        {{"allowed", true},
                         {"patchType", "JSONPatch"},
                         {"patch", absl::Base64Escape(text_of(patch.steps()))}}));
}

}  // namespace monkeytree
