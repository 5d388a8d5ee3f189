// What the expressions of a chat template compute with: Python's values, as far as templates need them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace dp::chat {

/// A template that cannot be read, or that refuses its messages; one sentence.
class TemplateError : public InputError {
 public:
  using InputError::InputError;
};

/// Values are shared, not copied: a list of messages is handed around at no cost. Only namespaces change, and therefore no
/// other value may hold one: there are no cycles, and nothing is nested deeper than kDeepest.
class Value {
 public:
  struct Undefined {
    std::string name;  // what was looked for
  };
  using List = std::vector<Value>;
  using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion
  static constexpr int kDeepest = 64;

  Value() : value_(Undefined{}) {}
  Value(std::nullptr_t) : value_(nullptr) {}
  Value(bool value) : value_(value) {}
  Value(int value) : value_(int64_t{value}) {}
  Value(int64_t value) : value_(value) {}
  Value(double value) : value_(value) {}
  Value(std::string text) : value_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(List list);
  Value(Dict dict);
  static Value make_namespace(Dict dict);
  static Value undefined(std::string name);

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_bool() || is_integer() || is_float(); }
  bool is_string() const {
    return std::holds_alternative<std::shared_ptr<const std::string>>(value_);
  }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<const List>>(value_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<Dict>>(value_); }

  // Each throws TemplateError for a value of another kind.
  const std::string& string() const;
  const List& list() const;
  const Dict& dict() const;
  int64_t integer() const;  // of a bool too, as in Python
  double number() const;

  /// Of a dict; null if there is none.
  const Value* find(std::string_view key) const;
  /// Of a namespace; all who share it see it.
  void assign(std::string_view key, Value value) const;

  bool truth() const;
  /// As Python's str() has it; nothing of an undefined value.
  std::string text() const;
  /// As Python's repr() has it.
  std::string repr() const;
  /// As Python's json.dumps(ensure_ascii=False) has it; indent < 0: on one line.
  std::string json(int64_t indent = -1) const;
  /// "a string", "a list", ...
  std::string kind() const;
  /// What an element of it costs to look at: letters of a text, elements of a list.
  size_t size() const;

  friend bool operator==(const Value& a, const Value& b);

 private:
  void append_json(std::string& out, int64_t indent, int64_t depth) const;
  void count_depth(const Value& part);
  const Undefined* as_undefined() const { return std::get_if<Undefined>(&value_); }

  std::variant<Undefined, std::nullptr_t, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<Dict>>
      value_;
  int depth_ = 0;  // of lists and mappings in one another
  bool namespace_ = false;
};

/// a < b of two numbers or two strings. Throws TemplateError.
bool less(const Value& a, const Value& b);

}  // namespace dp::chat
