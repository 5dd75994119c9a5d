#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/diagnostics.h"
#include "workload/history.h"

namespace monkeytree {

/// Traces of GPU clusters that their owners have published.
enum class PublicTrace : uint8_t {
  kAcme,     ///< Shanghai AI Lab 2023: trace_seren.csv, trace_kalos.csv
  kHelios,   ///< SenseTime 2020: cluster_log.csv
  kPhilly,   ///< Microsoft 2017: cluster_job_log (JSON)
  kAlibaba,  ///< Alibaba PAI 2020: pai_task_table.csv, with or without its header
};

/// "acme", "helios", "philly", "alibaba"; nullopt for other names.
std::optional<PublicTrace> public_trace(std::string_view name);

/// Reads one by its columns, named in docs/workload.md with what is assumed about each. An error
/// where the text has not that layout; rows that cannot be used are counted.
std::optional<ImportedTrace> import_public(PublicTrace kind, std::string_view text,
                                           std::string_view file, const ImportOptions& options,
                                           Diagnostics& diagnostics);

}  // namespace monkeytree
