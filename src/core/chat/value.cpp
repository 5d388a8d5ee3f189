#include "chat/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/quote.h"

namespace dp::chat {
namespace {

// 1.0, 0.25, 1e+20: the shortest text that reads back as the same number.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".en") == text.npos) text += ".0";
  return text;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char code[8];
          std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
          out += code;
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

std::string repr_string(std::string_view text) {
  const bool doubles = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char mark = doubles ? '"' : '\'';
  std::string out(1, mark);
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\\' || c == mark)
      (out += '\\') += c;
    else
      out += c;
  }
  return out + mark;
}

}  // namespace

Value::Value(List list) {
  for (const Value& item : list) count_depth(item);
  value_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [name, item] : dict) count_depth(item);
  value_ = std::make_shared<Dict>(std::move(dict));
}

void Value::count_depth(const Value& part) {
  if (part.namespace_) throw TemplateError("a namespace cannot be put into another value");
  depth_ = std::max(depth_, part.depth_ + 1);
  if (depth_ > kDeepest)
    throw TemplateError("values are nested more than " + std::to_string(kDeepest) + " deep");
}

Value Value::make_namespace(Dict dict) {
  Value value(std::move(dict));
  value.namespace_ = true;
  return value;
}

Value Value::undefined(std::string name) {
  Value value;
  std::get<Undefined>(value.value_).name = std::move(name);
  return value;
}

std::string Value::kind() const {
  if (const Undefined* none = as_undefined())
    return none->name.empty() ? "undefined" : quote(none->name) + ", which is undefined";
  static constexpr const char* kNames[] = {"",        "none",     "a boolean", "an integer",
                                           "a float", "a string", "a list",    "a mapping"};
  return kNames[value_.index()];
}

const std::string& Value::string() const {
  if (!is_string()) throw TemplateError("found " + kind() + ", expected a string");
  return *std::get<std::shared_ptr<const std::string>>(value_);
}

const Value::List& Value::list() const {
  if (!is_list()) throw TemplateError("found " + kind() + ", expected a list");
  return *std::get<std::shared_ptr<const List>>(value_);
}

const Value::Dict& Value::dict() const {
  if (!is_dict()) throw TemplateError("found " + kind() + ", expected a mapping");
  return *std::get<std::shared_ptr<Dict>>(value_);
}

int64_t Value::integer() const {
  if (is_bool()) return std::get<bool>(value_);
  if (!is_integer()) throw TemplateError("found " + kind() + ", expected an integer");
  return std::get<int64_t>(value_);
}

double Value::number() const {
  if (is_float()) return std::get<double>(value_);
  if (!is_number()) throw TemplateError("found " + kind() + ", expected a number");
  return static_cast<double>(integer());
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : dict())
    if (name == key) return &value;
  return nullptr;
}

void Value::assign(std::string_view key, Value value) const {
  if (!namespace_)
    throw TemplateError("found " + kind() + ", expected a namespace, whose members can be set");
  Value().count_depth(value);
  if (const Value* found = find(key))
    const_cast<Value&>(*found) = std::move(value);
  else
    std::get<std::shared_ptr<Dict>>(value_)->emplace_back(key, std::move(value));
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  return size() > 0;
}

size_t Value::size() const {
  if (is_string()) return string().size();
  if (is_list()) return list().size();
  if (is_dict()) return dict().size();
  return 0;
}

std::string Value::text() const {
  if (is_undefined()) return "";
  return is_string() ? string() : repr();
}

std::string Value::repr() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (is_bool()) return integer() ? "True" : "False";
  if (is_integer()) return std::to_string(integer());
  if (is_float()) return float_text(number());
  if (is_string()) return repr_string(string());
  // Lists and mappings as Python prints them differ from JSON in the quotes and in three words.
  std::string out = is_list() ? "[" : "{";
  const char* comma = "";
  if (is_list())
    for (const Value& item : list()) out += std::exchange(comma, ", ") + item.repr();
  else
    for (const auto& [name, item] : dict())
      out += std::exchange(comma, ", ") + repr_string(name) + ": " + item.repr();
  return out + (is_list() ? "]" : "}");
}

std::string Value::json(int64_t indent) const {
  std::string out;
  append_json(out, indent, 0);
  return out;
}

void Value::append_json(std::string& out, int64_t indent, int64_t depth) const {
  if (is_undefined()) throw TemplateError("found " + kind() + ", expected a value for tojson");
  if (is_string()) {
    out += json_string(string());
  } else if (!is_list() && !is_dict()) {
    out += is_none() ? "null" : is_bool() ? (integer() ? "true" : "false") : repr();
  } else if (size() == 0) {
    out += is_list() ? "[]" : "{}";
  } else {
    const auto new_line = [&](int64_t level) {
      if (indent >= 0) (out += '\n').append(static_cast<size_t>(level * indent), ' ');
    };
    const std::string comma = indent >= 0 ? "," : ", ";
    out += is_list() ? '[' : '{';
    for (size_t i = 0; i < size(); ++i) {
      if (i > 0) out += comma;
      new_line(depth + 1);
      if (is_dict()) (out += json_string(dict()[i].first)) += ": ";
      (is_list() ? list()[i] : dict()[i].second).append_json(out, indent, depth + 1);
    }
    new_line(depth);
    out += is_list() ? ']' : '}';
  }
}

bool operator==(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.value_.index() != b.value_.index()) return false;
  if (a.is_string()) return a.string() == b.string();
  if (a.is_list()) return a.list() == b.list();
  if (!a.is_dict()) return true;  // none and none
  return a.size() == b.size() && std::ranges::all_of(a.dict(), [&](const auto& field) {
           const Value* other = b.find(field.first);
           return other && *other == field.second;
         });
}

bool less(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.is_string() && b.is_string()) return a.string() < b.string();
  throw TemplateError("cannot order " + a.kind() + " and " + b.kind());
}

}  // namespace dp::chat
