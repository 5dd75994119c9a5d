#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace monkeytree {

/// A number that names one thing of one kind; ids of different kinds do not mix. -1 names nothing.
template <class Tag>
struct Id {
  int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(int32_t v) : value(v) {}
  constexpr explicit Id(size_t v) : value(static_cast<int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

/// A vector that only ids of its own kind can index.
template <class Key, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(size_t n, const T& value = T()) : items_(n, value) {}

  T& operator[](Key key) { return items_[static_cast<size_t>(key.value)]; }
  const T& operator[](Key key) const { return items_[static_cast<size_t>(key.value)]; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  bool contains(Key key) const {
    return key.value >= 0 && static_cast<size_t>(key.value) < items_.size();
  }
  Key push_back(T value) {
    items_.push_back(std::move(value));
    return Key(items_.size() - 1);
  }
  void resize(size_t n, const T& value = T()) { items_.resize(n, value); }
  void assign(size_t n, const T& value) { items_.assign(n, value); }
  void reserve(size_t n) { items_.reserve(n); }
  T& back() { return items_.back(); }
  const T& back() const { return items_.back(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  friend bool operator==(const IdVector&, const IdVector&) = default;

  /// All keys in order: `for (RackId r : racks.keys())`.
  struct Keys {
    struct Iterator {
      int32_t value;
      Key operator*() const { return Key(value); }
      Iterator& operator++() {
        ++value;
        return *this;
      }
      bool operator!=(const Iterator& other) const { return value != other.value; }
    };
    int32_t count;
    Iterator begin() const { return {0}; }
    Iterator end() const { return {count}; }
  };
  Keys keys() const { return {static_cast<int32_t>(items_.size())}; }

 private:
  std::vector<T> items_;
};

}  // namespace monkeytree

template <class Tag>
struct std::hash<monkeytree::Id<Tag>> {
  size_t operator()(monkeytree::Id<Tag> id) const noexcept {
    return std::hash<int32_t>()(id.value);
  }
};
