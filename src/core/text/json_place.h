// A value in a JSON file that knows where it stands: for messages that name the field.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/quote.h"

namespace dp {

class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  std::string where() const { return file_ + (path_.empty() ? "" : ": " + path_); }

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(where() + " " + problem);
  }
  [[noreturn]] void fail_type(const char* expected) const {
    using nlohmann::json;
    fail(is_null() ? "is missing, expected " + std::string(expected)
                   : "is " + quote(value_->dump(-1, ' ', false, json::error_handler_t::replace)) +
                         ", expected " + expected);
  }

  /// Of an object: null when it has no such field.
  JsonPlace field(const std::string& name) const {
    static const nlohmann::json null;
    if (!value_->is_object()) fail_type("an object");
    const auto found = value_->find(name);
    return {found == value_->end() ? null : *found, file_,
            path_.empty() ? name : path_ + "." + name};
  }
  JsonPlace element(size_t i) const {
    return {(*value_)[i], file_, path_ + "[" + std::to_string(i) + "]"};
  }
  /// Of a list.
  size_t size() const {
    if (!value_->is_array()) fail_type("a list");
    return value_->size();
  }
  const std::string& text() const {
    if (!value_->is_string()) fail_type("a text");
    return value_->get_ref<const std::string&>();
  }
  bool flag(bool absent) const {
    if (is_null()) return absent;
    if (!value_->is_boolean()) fail_type("true or false");
    return value_->get<bool>();
  }
  /// The field "type" of an object.
  const std::string& type() const { return field("type").text(); }

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

}  // namespace dp
