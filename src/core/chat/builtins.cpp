#include "chat/builtins.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include "base/quote.h"
#include "chat/syntax.h"
#include "chat/text_functions.h"

namespace dp::chat {
namespace {

constexpr int64_t kLargestRange = 100'000;

Value join(const Value& value, const std::string& between, const Value* attribute, Budget& budget) {
  std::string out;
  bool first = true;
  for (const Value& item : elements(value)) {
    if (!std::exchange(first, false)) out += between;
    out += (attribute ? element(item, *attribute) : item).text();
    budget.spend(between.size());
  }
  budget.spend(out.size());
  return out;
}

int64_t to_integer(const Value& value, int64_t otherwise) {
  if (value.is_float())
    return std::abs(value.number()) < 1e18 ? static_cast<int64_t>(value.number()) : otherwise;
  if (value.is_number()) return value.integer();
  if (!value.is_string()) return otherwise;
  try {
    size_t used = 0;
    const int64_t number = std::stoll(value.string(), &used);
    return used == value.string().size() ? number : otherwise;
  } catch (const std::exception&) {
    return otherwise;
  }
}

Value items(const Value& value) {
  Value::List all;
  if (value.is_undefined()) return all;
  for (const auto& [name, field] : value.dict()) all.emplace_back(Value::List{name, field});
  return all;
}

// selectattr(name), selectattr(name, test), selectattr(name, test, argument); and rejectattr, which keeps the others.
Value select(const Value& value, const Arguments& arguments, bool attribute, bool keep) {
  const size_t test_at = attribute ? 1 : 0;
  Value::List some;
  if (!value.truth()) return some;  // of none too
  for (const Value& item : elements(value)) {
    const Value tested = attribute ? element(item, arguments.at(0, "attribute")) : item;
    bool passes = tested.truth();
    if (arguments.count() > test_at) {
      const std::string& test = arguments.at(test_at, "test").string();
      if (!is_known_test(test))
        throw TemplateError("the test " + quote(test) + " is not known here");
      passes = apply_test(test, tested, arguments.values().subspan(test_at + 1));
    }
    if (passes == keep) some.push_back(item);
  }
  return some;
}

Value map(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* attribute = arguments.find(99, "attribute");
  Value::List all;
  for (const Value& item : elements(value)) {
    if (attribute) {
      all.push_back(element(item, *attribute));
      continue;
    }
    const std::string& filter = arguments.at(0, "filter").string();
    if (!is_known_filter(filter) || filter == "map")
      throw TemplateError("the filter " + quote(filter) + " is not known in 'map'");
    const auto rest = arguments.values().subspan(1);
    all.push_back(apply_filter(filter, item, Arguments({rest.begin(), rest.end()}, {}), budget));
  }
  return all;
}

Value first_or_last(const Value& value, bool first) {
  const Value::List all = elements(value);
  if (all.empty()) return Value::undefined(first ? "first" : "last");
  return first ? all.front() : all.back();
}

Value reversed(const Value& value) {
  return value.is_string() ? slice(value, Value(), Value(), -1)
                           : slice(elements(value), Value(), Value(), -1);
}

Value sorted_by_name(const Value& value) {
  Value::List all = items(value).list();
  std::ranges::stable_sort(
      all, [](const Value& a, const Value& b) { return less(a.list()[0], b.list()[0]); });
  return all;
}

const Value kNone = nullptr;

using Filter = Value (*)(const Value&, const Arguments&, Budget&);
const std::map<std::string, Filter, std::less<>>& filters() {
  using A = const Arguments&;
  using V = const Value&;
  static const std::map<std::string, Filter, std::less<>> all = {
      {"trim",
       [](V v, A a, Budget&) -> Value {
         return strip(v.text(), a.find(0, "chars") ? a.at(0, "chars").string() : kBlank, true,
                      true);
       }},
      {"upper", [](V v, A, Budget&) -> Value { return change_case(v.text(), true); }},
      {"lower", [](V v, A, Budget&) -> Value { return change_case(v.text(), false); }},
      {"title", [](V v, A, Budget&) -> Value { return title(v.text()); }},
      {"capitalize", [](V v, A, Budget&) -> Value { return capitalize(v.text()); }},
      {"string", [](V v, A, Budget&) -> Value { return v.text(); }},
      {"safe", [](V v, A, Budget&) -> Value { return v; }},
      {"length",
       [](V v, A, Budget&) -> Value {
         return static_cast<int64_t>(v.is_dict() ? v.size() : elements(v).size());
       }},
      {"count",
       [](V v, A, Budget&) -> Value {
         return static_cast<int64_t>(v.is_dict() ? v.size() : elements(v).size());
       }},
      {"first", [](V v, A, Budget&) -> Value { return first_or_last(v, true); }},
      {"last", [](V v, A, Budget&) -> Value { return first_or_last(v, false); }},
      {"list", [](V v, A, Budget&) -> Value { return elements(v); }},
      {"items", [](V v, A, Budget&) -> Value { return items(v); }},
      {"dictsort", [](V v, A, Budget&) -> Value { return sorted_by_name(v); }},
      {"reverse", [](V v, A, Budget&) -> Value { return reversed(v); }},
      {"int",
       [](V v, A a, Budget&) -> Value {
         return to_integer(v, a.find(0, "default") ? a.at(0, "default").integer() : 0);
       }},
      {"abs",
       [](V v, A, Budget&) -> Value {
         return v.is_float() ? Value(std::abs(v.number())) : Value(std::abs(v.integer()));
       }},
      {"join",
       [](V v, A a, Budget& b) -> Value {
         return join(v, a.find(0, "d") ? a.at(0, "d").text() : "", a.find(1, "attribute"), b);
       }},
      {"replace",
       [](V v, A a, Budget& b) -> Value {
         return replace(v.text(), a.at(0, "old").string(), a.at(1, "new").text(),
                        a.find(2, "count") ? a.at(2, "count").integer() : -1, b);
       }},
      {"indent",
       [](V v, A a, Budget&) -> Value {
         return indent(v.text(), a.find(0, "width") ? a.at(0, "width").integer() : 4,
                       a.find(1, "first") && a.at(1, "first").truth(),
                       a.find(2, "blank") && a.at(2, "blank").truth());
       }},
      {"default",
       [](V v, A a, Budget&) -> Value {
         return v.is_undefined() ||
                        (a.find(1, "boolean") && a.at(1, "boolean").truth() && !v.truth())
                    ? (a.find(0, "default_value") ? a.at(0, "default_value") : Value(""))
                    : v;
       }},
      {"d", [](V v, A a, Budget& b) -> Value { return apply_filter("default", v, a, b); }},
      {"tojson",
       [](V v, A a, Budget&) -> Value {
         const Value* wide = a.find(0, "indent");
         return v.json(wide && !wide->is_none()
                           ? std::clamp<int64_t>(wide->integer(), 0, kLargestIndent)
                           : -1);
       }},
      {"selectattr", [](V v, A a, Budget&) -> Value { return select(v, a, true, true); }},
      {"rejectattr", [](V v, A a, Budget&) -> Value { return select(v, a, true, false); }},
      {"select", [](V v, A a, Budget&) -> Value { return select(v, a, false, true); }},
      {"reject", [](V v, A a, Budget&) -> Value { return select(v, a, false, false); }},
      {"map", [](V v, A a, Budget& b) -> Value { return map(v, a, b); }},
  };
  return all;
}

using Test = bool (*)(const Value&, std::span<const Value>);
const std::map<std::string, Test, std::less<>>& tests() {
  using A = std::span<const Value>;
  using V = const Value&;
  static const auto other = [](A a) -> V {
    if (a.empty()) throw TemplateError("a test has nothing to compare with");
    return a[0];
  };
  static const std::map<std::string, Test, std::less<>> all = {
      {"defined", [](V v, A) { return !v.is_undefined(); }},
      {"undefined", [](V v, A) { return v.is_undefined(); }},
      {"none", [](V v, A) { return v.is_none(); }},
      {"string", [](V v, A) { return v.is_string(); }},
      {"mapping", [](V v, A) { return v.is_dict(); }},
      {"sequence", [](V v, A) { return v.is_list() || v.is_string() || v.is_dict(); }},
      {"iterable",
       [](V v, A) { return v.is_list() || v.is_string() || v.is_dict() || v.is_undefined(); }},
      {"number", [](V v, A) { return v.is_number(); }},
      {"integer", [](V v, A) { return v.is_integer(); }},
      {"float", [](V v, A) { return v.is_float(); }},
      {"boolean", [](V v, A) { return v.is_bool(); }},
      {"true", [](V v, A) { return v.is_bool() && v.truth(); }},
      {"false", [](V v, A) { return v.is_bool() && !v.truth(); }},
      {"odd", [](V v, A) { return v.integer() % 2 != 0; }},
      {"even", [](V v, A) { return v.integer() % 2 == 0; }},
      {"in", [](V v, A a) { return contains(other(a), v); }},
      {"eq", [](V v, A a) { return v == other(a); }},
      {"equalto", [](V v, A a) { return v == other(a); }},
      {"ne", [](V v, A a) { return !(v == other(a)); }},
  };
  return all;
}

using Method = Value (*)(const Value&, const Arguments&, Budget&);
const std::map<std::string, Method, std::less<>>& methods() {
  using A = const Arguments&;
  using V = const Value&;
  static const auto letters = [](A a) {
    return a.find(0, "chars") ? a.at(0, "chars").string() : std::string(kBlank);
  };
  static const auto affix = [](V v, A a, bool start) {
    const Value& given = a.at(0, start ? "prefix" : "suffix");
    for (const Value& one : given.is_list() ? given.list() : Value::List{given})
      if (start ? v.string().starts_with(one.string()) : v.string().ends_with(one.string()))
        return true;
    return false;
  };
  static const std::map<std::string, Method, std::less<>> all = {
      {"strip",
       [](V v, A a, Budget&) -> Value { return strip(v.string(), letters(a), true, true); }},
      {"lstrip",
       [](V v, A a, Budget&) -> Value { return strip(v.string(), letters(a), true, false); }},
      {"rstrip",
       [](V v, A a, Budget&) -> Value { return strip(v.string(), letters(a), false, true); }},
      {"upper", [](V v, A, Budget&) -> Value { return change_case(v.string(), true); }},
      {"lower", [](V v, A, Budget&) -> Value { return change_case(v.string(), false); }},
      {"title", [](V v, A, Budget&) -> Value { return title(v.string()); }},
      {"capitalize", [](V v, A, Budget&) -> Value { return capitalize(v.string()); }},
      {"startswith", [](V v, A a, Budget&) -> Value { return affix(v, a, true); }},
      {"endswith", [](V v, A a, Budget&) -> Value { return affix(v, a, false); }},
      {"split",
       [](V v, A a, Budget&) -> Value {
         return split(v.string(), a.find(0, "sep"),
                      a.find(1, "maxsplit") ? a.at(1, "maxsplit").integer() : -1);
       }},
      {"replace",
       [](V v, A a, Budget& b) -> Value {
         return replace(v.string(), a.at(0, "old").string(), a.at(1, "new").string(),
                        a.find(2, "count") ? a.at(2, "count").integer() : -1, b);
       }},
      {"join",
       [](V v, A a, Budget& b) -> Value {
         return join(a.at(0, "iterable"), v.string(), nullptr, b);
       }},
      {"find",
       [](V v, A a, Budget&) -> Value {
         const size_t at = v.string().find(a.at(0, "sub").string());
         return at == std::string::npos
                    ? Value(-1)
                    : Value(static_cast<int64_t>(elements(v.string().substr(0, at)).size()));
       }},
      {"items", [](V v, A, Budget&) -> Value { return items(v); }},
      {"keys", [](V v, A, Budget&) -> Value { return v.dict(), elements(v); }},
      {"values",
       [](V v, A, Budget&) -> Value {
         Value::List list;
         for (const auto& field : v.dict()) list.push_back(field.second);
         return list;
       }},
      {"get",
       [](V v, A a, Budget&) -> Value {
         const Value* found = v.find(a.at(0, "key").string());
         return found ? *found : a.find(1, "default") ? a.at(1, "default") : kNone;
       }},
  };
  return all;
}

Value range(const Arguments& arguments, Budget& budget) {
  const bool one = arguments.count() == 1;
  const int64_t begin = one ? 0 : arguments.at(0, "start").integer(),
                end = arguments.at(one ? 0 : 1, "stop").integer();
  const int64_t step = arguments.find(2, "step") ? arguments.at(2, "step").integer() : 1;
  const auto wide = static_cast<double>(end) - static_cast<double>(begin);
  if (step == 0 || std::abs(wide / static_cast<double>(step)) > static_cast<double>(kLargestRange))
    throw TemplateError("'range' is expected to have a step and at most 100000 numbers");
  Value::List all;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) all.emplace_back(i);
  budget.spend(all.size());
  return all;
}

std::string now(const std::string& format) {
  if (format.size() > 64)
    throw TemplateError("'strftime_now' has a format of more than 64 letters");
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  char text[512];
  return {text, std::strftime(text, sizeof text, format.c_str(), &local)};
}

}  // namespace

const Value* Arguments::find(size_t index, std::string_view name) const {
  if (index < values_.size()) return &values_[index];
  for (const auto& [given, value] : named_)
    if (given == name) return &value;
  return nullptr;
}

const Value& Arguments::at(size_t index, std::string_view name) const {
  if (const Value* found = find(index, name)) return *found;
  throw TemplateError("the argument " + quote(name) + " is missing");
}

void Budget::spend(size_t cost) {
  if (cost > left_) throw TemplateError("rendering takes too long or makes too much text");
  left_ -= cost;
}

bool is_known_filter(std::string_view name) { return filters().contains(name); }
bool is_known_test(std::string_view name) { return tests().contains(name); }
bool is_known_method(std::string_view name) { return methods().contains(name); }
bool is_known_function(std::string_view name) {
  return name == "range" || name == "namespace" || name == "dict" || name == "raise_exception" ||
         name == "strftime_now";
}

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments,
                   Budget& budget) {
  return filters().find(name)->second(value, arguments, budget);
}

bool apply_test(std::string_view name, const Value& value, std::span<const Value> arguments) {
  return tests().find(name)->second(value, arguments);
}

Value call_method(std::string_view name, const Value& value, const Arguments& arguments,
                  Budget& budget) {
  return methods().find(name)->second(value, arguments, budget);
}

Value call_function(std::string_view name, const Arguments& arguments, Budget& budget) {
  if (name == "range") return range(arguments, budget);
  if (name == "strftime_now") return now(arguments.at(0, "format").string());
  if (name == "raise_exception")
    throw TemplateError("the template refuses these messages: " +
                        quote(arguments.at(0, "message").text()));
  Value::Dict fields = arguments.named();
  return name == "namespace" ? Value::make_namespace(std::move(fields)) : Value(std::move(fields));
}

}  // namespace dp::chat
