// Lists, mappings and texts by their elements.
#include <algorithm>

#include "base/utf8.h"
#include "chat/builtins.h"

namespace dp::chat {
namespace {

// Where each character begins, and the end: Python counts characters, not bytes. Bytes that are not UTF-8 count alone.
std::vector<size_t> character_starts(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i)
    if (!utf8_continues(text[i])) starts.push_back(i);
  if (!text.empty() && (starts.empty() || starts[0] != 0)) starts.insert(starts.begin(), 0);
  starts.push_back(text.size());
  return starts;
}

}  // namespace

Value::List elements(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_list()) return value.list();
  Value::List all;
  if (value.is_dict()) {
    for (const auto& [name, field] : value.dict()) all.emplace_back(name);
  } else {
    const std::string& text = value.string();  // throws for what has no elements
    const std::vector<size_t> starts = character_starts(text);
    for (size_t i = 0; i + 1 < starts.size(); ++i)
      all.emplace_back(text.substr(starts[i], starts[i + 1] - starts[i]));
  }
  return all;
}

Value element(const Value& value, const Value& key) {
  if (value.is_undefined())
    throw TemplateError("found " + value.kind() + ", expected a value that has " + key.repr());
  if (value.is_dict()) {
    const Value* found = key.is_string() ? value.find(key.string()) : nullptr;
    return found ? *found : Value::undefined(key.text());
  }
  if (!key.is_integer() || !(value.is_list() || value.is_string()))
    return Value::undefined(key.text());
  const Value::List all = value.is_list() ? Value::List() : elements(value);
  const Value::List& list = value.is_list() ? value.list() : all;
  const auto count = static_cast<int64_t>(list.size());
  const int64_t index = key.integer() < 0 ? key.integer() + count : key.integer();
  return index >= 0 && index < count ? list[static_cast<size_t>(index)]
                                     : Value::undefined(key.text());
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  const Value::List all = elements(value);
  const auto count = static_cast<int64_t>(all.size());
  const auto given = [](const Value& bound) { return !bound.is_undefined() && !bound.is_none(); };
  const int64_t by = given(step) ? step.integer() : 1;
  if (by == 0) throw TemplateError("the step of a slice is 0");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? count : count - 1;
  const auto place = [&](const Value& bound, int64_t otherwise) {
    if (!given(bound)) return otherwise;
    const int64_t index = bound.integer() < 0 ? bound.integer() + count : bound.integer();
    return std::clamp(index, low, high);
  };
  const int64_t first = place(begin, by > 0 ? low : high), last = place(end, by > 0 ? high : low);
  Value::List some;
  // The distance is compared, because first + by may be beyond the largest number.
  for (int64_t i = first; by > 0 ? i < last : i > last;) {
    some.push_back(all[static_cast<size_t>(i)]);
    if (by > 0 ? by >= last - i : by <= last - i) break;
    i += by;
  }
  if (!value.is_string()) return some;
  std::string text;
  for (const Value& letter : some) text += letter.string();
  return text;
}

bool contains(const Value& value, const Value& item) {
  if (value.is_string()) return value.string().find(item.string()) != std::string::npos;
  if (value.is_dict()) return item.is_string() && value.find(item.string()) != nullptr;
  if (value.is_undefined()) return false;
  return std::ranges::find(value.list(), item) != value.list().end();
}

}  // namespace dp::chat
