#include "kubernetes/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "inventory/import.h"
#include "kubernetes/reading.h"
#include "kubernetes/snapshot.h"

namespace monkeytree {
namespace {

/// Reads one list: of `kubectl get`, whose items name their kinds, or of the server itself, which
/// names one kind for all of them. Where that comes after them, they wait for it.
class ListReader {
 public:
  ListReader(std::string_view file, const KubeReadRules& rules, KubeSeen& seen, KubeFacts& facts,
             Diagnostics& diagnostics)
      : file_(file), rules_(rules), seen_(seen), facts_(facts), diagnostics_(diagnostics) {}

  void take(const JsonPiece& piece) {
    if (piece.key == "apiVersion") version_ = kube_text(piece.value, {});
    if (piece.key == "kind") kind_ = kube_text(piece.value, {});
    if (piece.key != "items") return keep(piece);
    if (piece.index < 0) return error(piece, "", "expected a list of objects");
    if (!piece.value.is_object()) return error(piece, "", "expected an object of Kubernetes");
    if (const auto repeated = kube_repeated_key(piece.value)) {
      return error(piece, repeated->path,
                   fmt::format("the field {} stands there twice", quote(repeated->key)));
    }
    const std::string_view kind = kube_text(piece.value, {"kind"});
    if (!kind.empty()) {
      take_object(piece, kube_text(piece.value, {"apiVersion"}), kind);
    } else if (kind_.empty()) {
      waiting_.push_back({piece.index, piece.line, simdjson::minify(piece.value)});
    } else {
      take_member(piece);
    }
  }

  /// The file holds one object and no list; it is taken in.
  bool take_single() {
    if (kind_.empty() || kind_.ends_with("List") || !fields_.contains("metadata")) return false;
    std::string text;
    for (const auto& [key, value] : fields_) {
      text += fmt::format("{}{}: {}", text.empty() ? "{" : ", ", quote(key), value);
    }
    text += "}";
    simdjson::dom::parser parser;
    JsonPiece piece;
    if (parser.parse(text).get(piece.value) != simdjson::SUCCESS) return false;
    single_ = true;
    const auto repeated = kube_repeated_key(piece.value);
    if (repeated) {
      error(piece, repeated->path,
            fmt::format("the field {} stands there twice", quote(repeated->key)));
    } else {
      take_object(piece, version_, kind_);
    }
    return true;
  }

  /// All of the list has been handed over.
  void finish() {
    simdjson::dom::parser parser;
    for (const Waiting& item : waiting_) {
      JsonPiece piece;
      piece.key = "items";
      piece.index = item.index;
      piece.line = item.line;
      if (parser.parse(item.text).get(piece.value) == simdjson::SUCCESS) take_member(piece);
    }
  }

 private:
  struct Waiting {
    int64_t index;
    int line;
    std::string text;
  };

  /// Of a single object what is read of any; of a list only what is small.
  void keep(const JsonPiece& piece) {
    const bool read = piece.key == "metadata" || piece.key == "spec" || piece.key == "status";
    if (read && piece.index < 0) {
      fields_[std::string(piece.key)] = simdjson::minify(piece.value);
    }
  }

  std::string path_of(const JsonPiece& piece) const { return single_ ? "" : piece.path(); }
  void error(const JsonPiece& piece, const std::string& path, std::string message) {
    diagnostics_.error(file_, piece.line, path_of(piece) + path, std::move(message));
  }

  /// An object whose kind is that of the list.
  void take_member(const JsonPiece& piece) {
    constexpr std::string_view kList = "List";
    const std::string_view kind = kind_;
    if (kind.size() > kList.size() && kind.ends_with(kList)) {
      take_object(piece, version_, kind.substr(0, kind.size() - kList.size()));
    } else {
      error(piece, "", "no kind, expected an object as `kubectl get -o json` prints it");
    }
  }

  void take_object(const JsonPiece& piece, std::string_view version, std::string_view kind) {
    const KubeKindRow* row = find_kube_kind(version, kind);
    if (row == nullptr) return;
    const std::string key = kube_key(piece.value);
    if (!key.empty()) warn_of_double(piece, *row, key);
    if (const auto fault = facts_.put(row->kind, piece.value, rules_).fault) {
      const std::string name = key.empty() ? "" : fmt::format(" {}", quote(key));
      error(piece, fault->path, fmt::format("{}{}: {}", row->name, name, fault->message));
    }
  }

  void warn_of_double(const JsonPiece& piece, const KubeKindRow& row, const std::string& key) {
    const auto [at, is_new] = seen_.try_emplace({row.kind, key}, file_);
    if (is_new) return;
    const std::string where =
        at->second == file_ ? "twice" : fmt::format("in {} as well", printable(at->second));
    diagnostics_.warning(
        file_, piece.line, path_of(piece),
        fmt::format("{} {} stands there {}, the last counts", row.name, quote(key), where));
    at->second = file_;
  }

  std::string_view file_;
  const KubeReadRules& rules_;
  KubeSeen& seen_;
  KubeFacts& facts_;
  Diagnostics& diagnostics_;
  std::string kind_, version_;
  std::vector<Waiting> waiting_;
  std::map<std::string, std::string> fields_;  ///< of the top level
  bool single_ = false;
};

/// The same without the mark of byte order that some editors put in front.
ReadBytes without_mark(const ReadBytes& read) {
  static constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return [&read, front = std::string(), begun = false](
             char* buffer, size_t bytes) mutable -> absl::StatusOr<size_t> {
    if (!begun) {
      begun = true;
      char byte = 0;
      while (front.size() < kMark.size() && kMark.starts_with(front)) {
        const absl::StatusOr<size_t> got = read(&byte, 1);
        if (!got.ok()) return got.status();
        if (*got == 0) break;
        front += byte;
      }
      if (front == kMark) front.clear();
    }
    if (front.empty()) return read(buffer, bytes);
    const size_t some = std::min(bytes, front.size());
    std::copy_n(front.begin(), some, buffer);
    front.erase(0, some);
    return some;
  };
}

void read_objects(const std::string& file, const KubeReadRules& rules, KubeSeen& seen,
                  KubeFacts& facts, Diagnostics& diagnostics) {
  absl::StatusOr<InputFile> input = InputFile::open(file, kMaxKubernetesBytes);
  if (!input.ok()) {
    diagnostics.error(file, 0, "", std::string(input.status().message()));
    return;
  }
  const ReadBytes read = [&](char* buffer, size_t bytes) { return input->read(buffer, bytes); };
  read_kube_list(read, file, rules, seen, facts, diagnostics);
}

}  // namespace

bool read_kube_list(const ReadBytes& read, std::string_view file, const KubeReadRules& rules,
                    KubeSeen& seen, KubeFacts& facts, Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  ListReader reader(file, rules, seen, facts, diagnostics);
  const auto fields = read_json_pieces(without_mark(read), file, diagnostics,
                                       [&](const JsonPiece& piece) { reader.take(piece); });
  reader.finish();
  if (fields && !fields->contains("items") && !reader.take_single()) {
    diagnostics.error(
        file, 0, "",
        "no field \"items\", expected an object, or the list that `kubectl get KINDS -A -o json` "
        "prints");
  }
  return diagnostics.error_count() == before;
}

std::optional<Snapshot> import_kubernetes(const KubernetesFiles& files, Diagnostics& diagnostics) {
  if (std::count(files.objects.begin(), files.objects.end(), "-") > 1) {
    diagnostics.error("-", 0, "", "standard input can be only one of the files");
    return std::nullopt;
  }
  KubeFacts facts;
  KubeSeen seen;
  for (const std::string& file : files.objects) {
    read_objects(file, files.reading, seen, facts, diagnostics);
  }
  const std::optional<Uplinks> uplinks = read_uplinks(files.uplinks, diagnostics);
  if (diagnostics.has_errors() || !uplinks) return std::nullopt;
  const std::string& source = files.objects.size() == 1 ? files.objects.front() : "kubernetes";
  std::optional<KubeSnapshot> built =
      build_kube_snapshot(facts, files.racks, files.reading, *uplinks, source, diagnostics);
  if (!built) return std::nullopt;
  return std::move(built->snapshot);
}

}  // namespace monkeytree
