// Any text is a what-if or an import that is answered or refused with a reason, and what is
// answered can be read again.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bytes.h"
#include "cluster/letters.h"
#include "cluster/snapshot_json.h"
#include "control/what_if.h"
#include "planning/plan_json.h"
#include "service/api_try.h"

using monkeytree::Diagnostics;
using monkeytree::require;
using monkeytree::Snapshot;

namespace {

void expect_readable(const nlohmann::json& files) {
  Diagnostics diagnostics;
  require(monkeytree::parse_snapshot(files["snapshot"].get<std::string>(), "", diagnostics)
              .has_value());
  if (!files.contains("plan")) return;
  require(monkeytree::parse_plan(files["plan"].get<std::string>(), "", diagnostics).has_value());
  require(!files["case"].get<std::string>().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const Snapshot live =
      *monkeytree::parse_letters("R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n");
  monkeytree::WhatIfLimits limits;
  limits.work_limit = 1000;
  int asked = 0;
  limits.stop = [&asked] { return ++asked > 10; };
  Diagnostics diagnostics;
  const std::optional<std::string> answer = monkeytree::what_if(text, &live, limits, diagnostics);
  require(answer.has_value() != diagnostics.has_errors());
  if (answer) expect_readable(nlohmann::json::parse(*answer)["files"]);

  Diagnostics of_import;
  const std::optional<Snapshot> imported = monkeytree::import_texts(text, of_import);
  require(imported.has_value() != of_import.has_errors());
  return 0;
}
