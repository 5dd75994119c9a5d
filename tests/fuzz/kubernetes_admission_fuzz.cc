// What the server asks about a pod may be anything: the answer is JSON or none, and a pod that is
// sent to its node is made by a patch.

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "kubernetes/moves.h"

using namespace monkeytree;  // NOLINT: a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string uid;
  const std::optional<KubeAdmission> asked = read_kube_admission(text, uid);
  simdjson::dom::parser parser;
  simdjson::dom::element object;
  if (parser.parse(text).get(object) == simdjson::SUCCESS) {
    if (const std::optional<KubeMove> move = read_kube_move(object)) {
      if (!nlohmann::json::accept(write_kube_move(*move, "space"))) std::abort();
    }
  }
  if (!uid.empty() && !nlohmann::json::accept(admit(uid))) std::abort();
  if (!asked) return 0;
  KubeMove move;
  move.owner = asked->owner;
  if (!nlohmann::json::accept(admit_to(text, move))) std::abort();
  return 0;
}
