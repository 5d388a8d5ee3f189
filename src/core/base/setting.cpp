#include "base/setting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"

namespace dp {
namespace {

using nlohmann::json;

template <class T>
Setting bound(std::string option, std::string field, T& value, std::string help) {
  Setting setting;
  setting.option = std::move(option);
  setting.field = std::move(field);
  setting.help = std::move(help);
  setting.get = [&value] { return SettingValue(value); };
  setting.set = [&value](const SettingValue& given) { value = std::get<T>(given); };
  return setting;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string number_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string value_text(const SettingValue& value) {
  if (const auto* x = std::get_if<std::string>(&value)) return quote(*x);
  if (const auto* x = std::get_if<double>(&value)) return number_text(*x);
  return std::visit([](const auto& x) { return dump_json(json(x)); }, value);
}

[[noreturn]] void refuse(const Setting& setting, const std::string& found,
                         const std::string& where) {
  throw InputError(where + " is " + found + ", expected " + setting.expected());
}

}  // namespace

bool Setting::belongs_to(std::string_view model) const {
  return owners.empty() || std::ranges::find(owners, model) != owners.end();
}

std::string Setting::expected() const {
  const SettingValue now = get();
  if (std::holds_alternative<bool>(now)) return "true or false";
  if (std::holds_alternative<std::string>(now)) {
    if (choices.empty()) return "a text";
    std::string all;
    for (size_t i = 0; i < choices.size(); ++i)
      all += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
    return all;
  }
  const bool real = std::holds_alternative<double>(now);
  const std::string one = real ? "a number" : "an integer";
  const std::string kind =
      std::holds_alternative<std::vector<int64_t>>(now) ? "a list of integers" : one;
  if (most == std::numeric_limits<double>::max())
    return kind + (above_least ? " above " : " of at least ") + number_text(least);
  if (real) return kind + " from " + number_text(least) + " to " + number_text(most);
  return kind + " from " + std::to_string(static_cast<int64_t>(least)) + " to " +
         std::to_string(static_cast<int64_t>(most));
}

void Setting::assign(const SettingValue& value, const std::string& where) const {
  const auto in_range = [&](double x) {
    return std::isfinite(x) && x >= least && x <= most && !(above_least && x == least);
  };
  bool good = value.index() == get().index();
  if (const auto* x = std::get_if<int64_t>(&value)) good = good && in_range(static_cast<double>(*x));
  if (const auto* x = std::get_if<double>(&value)) good = good && in_range(*x);
  if (const auto* all = std::get_if<std::vector<int64_t>>(&value))
    for (const int64_t x : *all) good = good && in_range(static_cast<double>(x));
  if (const auto* x = std::get_if<std::string>(&value); x && !choices.empty())
    good = good && std::ranges::find(choices, *x) != choices.end();
  if (!good) refuse(*this, value_text(value), where);
  set(value);
}

void Setting::assign_text(std::string_view text, const std::string& where) const {
  const SettingValue now = get();
  if (std::holds_alternative<std::string>(now)) return assign(std::string(text), where);
  if (std::holds_alternative<bool>(now) && (text == "true" || text == "false"))
    return assign(text == "true", where);
  if (std::holds_alternative<int64_t>(now)) {
    if (int64_t x = 0; parse_number(text, x)) return assign(x, where);
  } else if (std::holds_alternative<double>(now)) {
    if (double x = 0; parse_number(text, x)) return assign(x, where);
  } else if (std::holds_alternative<std::vector<int64_t>>(now)) {
    std::vector<int64_t> all;
    for (std::string_view rest = text;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      if (!parse_number(rest.substr(0, comma), all.emplace_back())) break;
      if (comma == rest.size()) return assign(all, where);
      rest.remove_prefix(comma + 1);
    }
  }
  refuse(*this, quote(text), where);
}

void Setting::assign_json(const nlohmann::json& value, const std::string& where) const {
  const SettingValue now = get();
  const bool fits_integer =
      value.is_number_integer() &&
      !(value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (std::holds_alternative<bool>(now) && value.is_boolean())
    return assign(value.get<bool>(), where);
  if (std::holds_alternative<std::string>(now) && value.is_string())
    return assign(value.get<std::string>(), where);
  if (std::holds_alternative<int64_t>(now) && fits_integer)
    return assign(value.get<int64_t>(), where);
  if (std::holds_alternative<double>(now) && value.is_number())
    return assign(value.get<double>(), where);
  if (std::holds_alternative<std::vector<int64_t>>(now) && value.is_array() &&
      std::ranges::all_of(value, [](const json& x) { return x.is_number_integer(); }))
    return assign(value.get<std::vector<int64_t>>(), where);
  refuse(*this, quote(value.dump(-1, ' ', false, json::error_handler_t::replace)), where);
}

nlohmann::json Setting::to_json() const {
  return std::visit([](const auto& value) { return nlohmann::json(value); }, get());
}

std::string Setting::text() const {
  const SettingValue now = get();
  if (const auto* x = std::get_if<std::string>(&now)) return *x;
  if (const auto* x = std::get_if<double>(&now)) return number_text(*x);
  if (const auto* all = std::get_if<std::vector<int64_t>>(&now)) {
    std::string text;
    for (const int64_t x : *all) text += (text.empty() ? "" : ",") + std::to_string(x);
    return text;
  }
  return dump_json(to_json());
}

Setting&& Setting::for_models(std::vector<std::string> names) && {
  owners = std::move(names);
  return std::move(*this);
}

Setting&& Setting::since_later() && {
  added_later = true;
  return std::move(*this);
}

Setting flag_setting(std::string option, std::string field, bool& value, std::string help) {
  return bound(std::move(option), std::move(field), value, std::move(help));
}

Setting integer_setting(std::string option, std::string field, int64_t& value, int64_t least,
                        int64_t most, std::string help) {
  Setting setting = bound(std::move(option), std::move(field), value, std::move(help));
  setting.least = static_cast<double>(least), setting.most = static_cast<double>(most);
  return setting;
}

Setting real_setting(std::string option, std::string field, double& value, double least,
                     double most, std::string help) {
  Setting setting = bound(std::move(option), std::move(field), value, std::move(help));
  setting.least = least, setting.most = most;
  return setting;
}

Setting positive_setting(std::string option, std::string field, double& value, std::string help) {
  Setting setting = real_setting(std::move(option), std::move(field), value, 0,
                                 std::numeric_limits<double>::max(), std::move(help));
  setting.above_least = true;
  return setting;
}

Setting text_setting(std::string option, std::string field, std::string& value, std::string help) {
  return bound(std::move(option), std::move(field), value, std::move(help));
}

Setting integers_setting(std::string option, std::string field, std::vector<int64_t>& value,
                         int64_t least, int64_t most, std::string help) {
  Setting setting = bound(std::move(option), std::move(field), value, std::move(help));
  setting.least = static_cast<double>(least), setting.most = static_cast<double>(most);
  return setting;
}

Setting computed_setting(std::string option, std::string field, int64_t least, int64_t most,
                         std::function<int64_t()> get, std::function<void(int64_t)> set,
                         std::string help) {
  Setting setting;
  setting.option = std::move(option);
  setting.field = std::move(field);
  setting.help = std::move(help);
  setting.least = static_cast<double>(least), setting.most = static_cast<double>(most);
  setting.get = [get = std::move(get)] { return SettingValue(get()); };
  setting.set = [set = std::move(set)](const SettingValue& value) {
    set(std::get<int64_t>(value));
  };
  return setting;
}

Setting choice_setting(std::string option, std::string field, std::vector<std::string> choices,
                       std::function<std::string()> get,
                       std::function<void(const std::string&)> set, std::string help) {
  Setting setting;
  setting.option = std::move(option);
  setting.field = std::move(field);
  setting.help = std::move(help);
  setting.choices = std::move(choices);
  setting.get = [get = std::move(get)] { return SettingValue(get()); };
  setting.set = [set = std::move(set)](const SettingValue& value) {
    set(std::get<std::string>(value));
  };
  return setting;
}

}  // namespace dp
