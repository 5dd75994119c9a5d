#include <nlohmann/json.hpp>

#include "base/json.h"
#include "control/migration.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const WorkerCommand& command) {
  return {{"arguments", command.arguments},
          {"folder", command.folder},
          {"environment", command.environment}};
}

Json json_of(const std::map<WorkerName, std::string>& nodes) {
  Json list = Json::array();
  for (const auto& [name, node] : nodes) {
    list.push_back({{"group", name.group}, {"worker", name.worker}, {"node", node}});
  }
  return list;
}

Json json_of(const std::set<WorkerName>& workers) {
  Json list = Json::array();
  for (const WorkerName& name : workers) {
    list.push_back({{"group", name.group}, {"worker", name.worker}});
  }
  return list;
}

/// Reads a text that this program wrote: whatever does not fit makes the whole unreadable, and
/// `good` false.
class Reader {
 public:
  explicit Reader(JsonObject object, bool& good) : object_(std::move(object)), good_(good) {}

  std::string text(std::string_view key) {
    const std::optional<JsonValue> value = object_.require(key);
    const std::optional<std::string_view> text = value ? value->string() : std::nullopt;
    if (!text) good_ = false;
    return std::string(text.value_or(""));
  }
  int64_t integer(std::string_view key, int64_t low = INT64_MIN, int64_t high = INT64_MAX) {
    const std::optional<JsonValue> value = object_.require(key);
    const std::optional<int64_t> number = value ? value->integer(low, high) : std::nullopt;
    if (!number) good_ = false;
    return number.value_or(low);
  }
  double number(std::string_view key) {
    const std::optional<JsonValue> value = object_.require(key);
    const std::optional<double> number = value ? value->number() : std::nullopt;
    if (!number) good_ = false;
    return number.value_or(0);
  }
  bool boolean(std::string_view key) {
    const std::optional<JsonValue> value = object_.require(key);
    const std::optional<bool> flag = value ? value->boolean() : std::nullopt;
    if (!flag) good_ = false;
    return flag.value_or(false);
  }
  std::optional<Reader> child(std::string_view key) {
    const std::optional<JsonValue> value = object_.require(key);
    std::optional<JsonObject> object = value ? value->object() : std::nullopt;
    if (!object) {
      good_ = false;
      return std::nullopt;
    }
    return Reader(std::move(*object), good_);
  }
  std::vector<JsonValue> list(std::string_view key) {
    const std::optional<JsonValue> value = object_.require(key);
    std::optional<std::vector<JsonValue>> list = value ? value->array() : std::nullopt;
    if (!list) good_ = false;
    return std::move(list).value_or(std::vector<JsonValue>());
  }
  std::vector<Reader> children(std::string_view key) {
    std::vector<Reader> readers;
    for (const JsonValue& value : list(key)) {
      if (std::optional<JsonObject> object = value.object()) {
        readers.emplace_back(std::move(*object), good_);
      } else {
        good_ = false;
      }
    }
    return readers;
  }
  bool has(std::string_view key) { return object_.find(key).has_value(); }
  const JsonObject& object() const { return object_; }

 private:
  JsonObject object_;
  bool& good_;
};

constexpr int64_t kMaxIndex = int64_t{1} << 30;

WorkerName read_name(Reader& reader, const std::string& job) {
  return {job, static_cast<int>(reader.integer("group", 0, kMaxIndex)),
          static_cast<int>(reader.integer("worker", 0, kMaxIndex))};
}

WorkerCommand read_command(Reader reader) {
  WorkerCommand command;
  for (const JsonValue& value : reader.list("arguments")) {
    command.arguments.emplace_back(value.string().value_or(""));
  }
  command.folder = reader.text("folder");
  if (std::optional<Reader> environment = reader.child("environment")) {
    for (const JsonObject::Field& field : environment->object().fields()) {
      command.environment[std::string(field.key)] = std::string(field.value.string().value_or(""));
    }
  }
  return command;
}

std::map<WorkerName, std::string> read_nodes(Reader& reader, std::string_view key,
                                             const std::string& job) {
  std::map<WorkerName, std::string> nodes;
  for (Reader& entry : reader.children(key)) {
    const WorkerName name = read_name(entry, job);
    nodes[name] = entry.text("node");
  }
  return nodes;
}

std::set<WorkerName> read_names(Reader& reader, std::string_view key, const std::string& job) {
  std::set<WorkerName> names;
  for (Reader& entry : reader.children(key)) names.insert(read_name(entry, job));
  return names;
}

std::vector<WorkerMove> read_moves(Reader& reader, const std::string& job) {
  std::vector<WorkerMove> moves;
  for (Reader& entry : reader.children("moves")) {
    WorkerMove move;
    move.worker = read_name(entry, job);
    move.from = entry.text("from");
    move.to = entry.text("to");
    move.state_bytes = entry.integer("state_bytes", 0);
    move.hold = entry.text("hold");
    if (std::optional<Reader> command = entry.child("command")) {
      move.command = read_command(std::move(*command));
    }
    move.staged_by = entry.text("staged_by");
    moves.push_back(std::move(move));
  }
  return moves;
}

}  // namespace

std::string write_migration(const Migration& migration) {
  Json moves = Json::array();
  for (const WorkerMove& move : migration.moves) {
    moves.push_back({{"group", move.worker.group},
                     {"worker", move.worker.worker},
                     {"from", move.from},
                     {"to", move.to},
                     {"state_bytes", move.state_bytes},
                     {"hold", move.hold},
                     {"command", json_of(move.command)},
                     {"staged_by", move.staged_by}});
  }
  Json json = {{"id", migration.id},
               {"plan", migration.plan},
               {"round", migration.round},
               {"job", migration.job},
               {"gpus", migration.gpus},
               {"reservation", migration.reservation},
               {"moves", moves},
               {"before", json_of(migration.before)},
               {"after", json_of(migration.after)},
               {"staged", json_of(migration.staged)},
               {"was_paused", migration.was_paused},
               {"stays_paused", migration.stays_paused},
               {"state", name_of(migration.state)},
               {"heading", name_of(migration.heading)},
               {"reason", migration.reason}};
  if (migration.iteration) json["iteration"] = *migration.iteration;
  // What is not UTF-8 (a job's environment may hold anything) is replaced, not thrown at us.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Migration> read_migration(std::string_view text) {
  Diagnostics ignored;
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, "journal", ignored);
  if (!document) return std::nullopt;
  std::optional<JsonObject> root = document->root().object();
  if (!root) return std::nullopt;
  bool good = true;
  Reader reader(std::move(*root), good);
  Migration migration;
  migration.id = reader.text("id");
  migration.plan = reader.integer("plan");
  migration.round = static_cast<int>(reader.integer("round", 0, kMaxIndex));
  migration.job = reader.text("job");
  migration.gpus = reader.number("gpus");
  migration.reservation = reader.text("reservation");
  migration.moves = read_moves(reader, migration.job);
  migration.before = read_nodes(reader, "before", migration.job);
  migration.after = read_nodes(reader, "after", migration.job);
  migration.staged = read_names(reader, "staged", migration.job);
  migration.was_paused = reader.boolean("was_paused");
  migration.stays_paused = reader.boolean("stays_paused");
  const std::optional<MigrationState> state = migration_state(reader.text("state"));
  const std::optional<Heading> heading = heading_named(reader.text("heading"));
  migration.reason = reader.text("reason");
  if (reader.has("iteration")) migration.iteration = reader.integer("iteration");
  if (!good || !state || !heading) return std::nullopt;
  migration.state = *state;
  migration.heading = *heading;
  return migration;
}

}  // namespace monkeytree
