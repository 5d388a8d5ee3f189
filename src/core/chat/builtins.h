// Filters, tests, methods and functions of chat templates, with the meaning that Jinja and Python give them.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "chat/value.h"

namespace dp::chat {

/// What a filter, method or function is called with.
class Arguments {
 public:
  using Named = std::vector<std::pair<std::string, Value>>;
  Arguments(std::vector<Value> values, Named named)
      : values_(std::move(values)), named_(std::move(named)) {}

  size_t count() const { return values_.size(); }
  /// Number `index`, or the one called `name`; null if there is neither.
  const Value* find(size_t index, std::string_view name) const;
  /// The same; throws TemplateError if it is missing.
  const Value& at(size_t index, std::string_view name) const;
  std::span<const Value> values() const { return values_; }
  const Named& named() const { return named_; }

 private:
  std::vector<Value> values_;
  Named named_;
};

/// Counts what a rendering costs, in values looked at and bytes made. Throws TemplateError beyond the limit.
class Budget {
 public:
  explicit Budget(size_t most) : left_(most) {}
  void spend(size_t cost);

 private:
  size_t left_;
};

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments,
                   Budget& budget);
bool apply_test(std::string_view name, const Value& value, std::span<const Value> arguments);
Value call_method(std::string_view name, const Value& value, const Arguments& arguments,
                  Budget& budget);
Value call_function(std::string_view name, const Arguments& arguments, Budget& budget);

/// value[begin:end:step] of a list or a text; undefined: not given.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step);
/// value[key], undefined if there is none.
Value element(const Value& value, const Value& key);
/// Elements of a list, names of a mapping, characters of a text, nothing of what is undefined.
Value::List elements(const Value& value);
bool contains(const Value& value, const Value& item);

}  // namespace dp::chat
