// Any bytes as an answer of etcd: what is taken for one holds what its reader relies on, and what
// is no answer gives a complaint that can be printed.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "election/etcd_json.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto outcome = parse_outcome(text); outcome.ok()) {
    must(outcome->revision > 0);
    must(!outcome->done || outcome->found.empty());
  }
  if (const auto page = parse_page(text); page.ok()) must(!page->more || !page->pairs.empty());
  if (const auto lease = parse_lease(text); lease.ok()) {
    must(lease->id != 0);
    const std::chrono::nanoseconds as_time_is_counted = lease->ttl;
    must((as_time_is_counted.count() > 0) == (lease->ttl.count() > 0));
  }
  for (const char c : etcd_complaint(text)) must(static_cast<unsigned char>(c) >= 0x20);
  return 0;
}
