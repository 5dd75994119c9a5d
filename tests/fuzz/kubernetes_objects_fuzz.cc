// A list of objects of any bytes: the import refuses it with a reason or gives a snapshot that the
// reader of snapshots accepts. The first byte chooses how racks are named.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cluster/snapshot_json.h"
#include "kubernetes/import.h"
#include "kubernetes/snapshot.h"

using namespace monkeytree;  // NOLINT: a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  KubeRackRules rules;
  switch (data[0] % 4) {
    case 0:
      rules.source = "topograph";
      break;
    case 1:
      rules.source = "kueue";
      break;
    case 2:
      rules.source = "hypernode";
      break;
    default:
      rules.rack_label = "rack";
      break;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Diagnostics diagnostics;
  KubeSeen seen;
  KubeFacts facts;
  const KubeReadRules reading;
  if (!read_kube_list(bytes_of(text), "o", reading, seen, facts, diagnostics)) {
    if (!diagnostics.has_errors()) std::abort();
    return 0;
  }
  Uplinks uplinks;
  uplinks.given = true;
  const auto built = build_kube_snapshot(facts, rules, reading, uplinks, "o", diagnostics);
  if (!built) {
    if (!diagnostics.has_errors()) std::abort();
    return 0;
  }
  Diagnostics again;
  const std::string json = write_snapshot(built->snapshot);
  if (!parse_snapshot(json, "s", again)) {
    std::fprintf(stderr, "%s%s", again.text().c_str(), json.c_str());
    std::abort();
  }
  return 0;
}
