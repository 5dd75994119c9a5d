// Host lists of any bytes: they expand or are refused, and their short form means the same.

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/hostlist.h"

using monkeytree::compress_hostlist;
using monkeytree::expand_hostlist;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto names = expand_hostlist(text, 2000);
  if (!names.ok()) return 0;
  if (names->size() > 2000) std::abort();
  std::set<std::string> wanted;
  for (const std::string& name : *names) {
    if (name.empty() || name.find_first_of(", \t\r\n[]") != std::string::npos) std::abort();
    wanted.insert(name);
  }
  const auto back = expand_hostlist(compress_hostlist(*names), 2000);
  if (!back.ok() || std::set<std::string>(back->begin(), back->end()) != wanted) std::abort();
  return 0;
}
