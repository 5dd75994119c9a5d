// A watch of any bytes, whole and in pieces whose sizes the first byte gives: both give the same
// events and the same end, and what the events leave behind is a snapshot or a refusal.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kubernetes/objects.h"
#include "kubernetes/snapshot.h"
#include "kubernetes/watch_stream.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

/// What was seen, as a text, and the facts that it leaves.
std::string follow(std::string_view bytes, size_t piece, KubeFacts& facts) {
  std::string log;
  const KubeReadRules rules;
  KubeWatchStream stream([&](const KubeWatchEvent& event) {
    // The kinds come by turns: each reader meets whatever there is.
    const auto kind = static_cast<KubeKind>(event.version.size() % kube_kinds().size());
    const std::string key = kube_key(event.object);
    log += std::to_string(static_cast<int>(event.kind)) + key + '@' + std::string(event.version);
    if (event.kind == KubeWatchEvent::Kind::kPut) {
      const KubePut put = facts.put(kind, event.object, rules);
      if (put.fault) log += put.fault->path + put.fault->message;
    }
    if (event.kind == KubeWatchEvent::Kind::kDeleted) facts.remove(kind, key);
  });
  for (size_t at = 0; at < bytes.size(); at += piece) {
    if (!stream.feed(bytes.substr(at, piece))) break;
  }
  return log + std::to_string(static_cast<int>(stream.end())) + stream.fault() +
         std::to_string(stream.pending());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  KubeFacts facts;
  KubeFacts again;
  const std::string whole = follow(bytes, bytes.size() + 1, facts);
  if (follow(bytes, data[0] % 32 + 1, again) != whole) std::abort();
  KubeRackRules rules;
  rules.rack_label = "rack";
  Diagnostics diagnostics;
  const auto built = build_kube_snapshot(facts, rules, {}, {}, "w", diagnostics);
  if (built.has_value() == diagnostics.has_errors()) std::abort();
  return 0;
}
