#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Reading what Kubernetes prints. Its server has checked its own types, so what is optional is
/// read leniently: a field of another kind counts as missing. What a snapshot stands on is read by
/// the readers in objects.h, which say where a fault is.
namespace monkeytree {

/// The value at that path of fields; nullopt where there is none, or null.
std::optional<simdjson::dom::element> kube_at(std::optional<simdjson::dom::element> value,
                                              std::initializer_list<std::string_view> path);
/// A text; "" where there is none.
std::string_view kube_text(std::optional<simdjson::dom::element> value,
                           std::initializer_list<std::string_view> path);
/// A whole number; nullopt where there is none.
std::optional<int64_t> kube_number(std::optional<simdjson::dom::element> value,
                                   std::initializer_list<std::string_view> path);
/// True only where it says so.
bool kube_true(std::optional<simdjson::dom::element> value,
               std::initializer_list<std::string_view> path);
/// Elements of a list; none where it is no list.
std::vector<simdjson::dom::element> kube_items(std::optional<simdjson::dom::element> list);
/// Fields of an object that are texts.
std::vector<std::pair<std::string_view, std::string_view>> kube_texts(
    std::optional<simdjson::dom::element> object);

/// A whole number of things as Kubernetes writes it: 8, "8", "8k", "8000m". nullopt for anything
/// else, also what is no whole number.
std::optional<int> kube_quantity(simdjson::dom::element value);

/// Seconds since 1970 of "2026-11-30T15:00:00Z".
std::optional<double> kube_time(std::string_view text);

/// A key that stands twice in one object, and the JSON path of that object within the value.
struct KubeRepeatedKey {
  std::string key, path;
};
std::optional<KubeRepeatedKey> kube_repeated_key(simdjson::dom::element value);

}  // namespace monkeytree
