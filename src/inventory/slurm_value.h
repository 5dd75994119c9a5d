#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>
#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Slurm has printed the same facts in several shapes over the years; these read any of them.
namespace monkeytree {

/// The field of a small object; nullopt where it is missing or null.
std::optional<simdjson::dom::element> field(simdjson::dom::element object, std::string_view name);

/// An object of many fields, each found in constant time.
class SlurmObject {
 public:
  explicit SlurmObject(simdjson::dom::element object);

  /// The field of that name; nullopt where it is missing or null.
  std::optional<simdjson::dom::element> operator[](std::string_view name) const;
  /// A key that stands there twice; nullopt where none does.
  std::optional<std::string_view> repeated_key() const { return repeated_key_; }

 private:
  absl::flat_hash_map<absl::string_view, simdjson::dom::element> fields_;
  std::optional<std::string_view> repeated_key_;
};

/// A number: plain, `{"set":true,"infinite":false,"number":7}`, or in quotes. nullopt where it is
/// not set, infinite, or nothing of the kind.
std::optional<int64_t> slurm_number(std::optional<simdjson::dom::element> value);

/// A text; "" where there is none or it says "(null)", "N/A" or "None". The words of a list are
/// joined by commas.
std::string slurm_text(std::optional<simdjson::dom::element> value);

/// States and flags: "RUNNING", ["IDLE","DRAIN"] or "IDLE+DRAIN", in upper case.
std::vector<std::string> slurm_words(std::optional<simdjson::dom::element> value);
std::vector<std::string> split_states(std::string_view text);

bool has_word(const std::vector<std::string>& words, std::initializer_list<std::string_view> any);

/// How many GPUs a GRES or TRES text names, and their types, "gpu:a100+gpu:h200" where it names
/// them: "gpu:h200:8(S:0-1),shard:16", "gres:gpu:8", "gpu:8(IDX:0-7)", "cpu=64,gres/gpu=8".
struct Gpus {
  int count = 0;
  std::string type;  ///< "" where none is named
};
Gpus parse_gpus(std::string_view text);

}  // namespace monkeytree
