// A setting declared once: its command-line option, JSON field, range, help and the variable it is kept in.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dp {

using SettingValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

/// Bound to a variable of the caller's, which must outlive it.
struct Setting {
  std::string option;  // "lr": --lr on the command line, "lr" in files of options
  std::string field;   // "training.learning_rate" in JSON; empty: stored elsewhere
  std::string help;
  std::function<SettingValue()> get;
  std::function<void(const SettingValue&)> set;
  double least = 0, most = 0;        // of numbers
  bool above_least = false;          // `least` itself is not allowed
  std::vector<std::string> choices;  // of texts; empty: any
  bool added_later = false;          // JSON of older versions lacks it
  std::vector<std::string> owners;   // names of the models that have it; empty: all

  bool belongs_to(std::string_view model) const;
  /// "an integer from 1 to 64", "true or false", "normal or paper".
  std::string expected() const;
  /// Checks and stores. The InputError begins with `where`, for example "--lr" or "run.json: field 'lr'".
  void assign(const SettingValue& value, const std::string& where) const;
  void assign_text(std::string_view text, const std::string& where) const;
  void assign_json(const nlohmann::json& value, const std::string& where) const;
  nlohmann::json to_json() const;
  std::string text() const;  // of the value: "0.001", "128,512", "true"

  Setting&& for_models(std::vector<std::string> names) &&;
  Setting&& since_later() &&;
};
using Settings = std::vector<Setting>;

Setting flag_setting(std::string option, std::string field, bool& value, std::string help);
Setting integer_setting(std::string option, std::string field, int64_t& value, int64_t least,
                        int64_t most, std::string help);
/// Finite numbers from least to most.
Setting real_setting(std::string option, std::string field, double& value, double least,
                     double most, std::string help);
/// Finite numbers above 0.
Setting positive_setting(std::string option, std::string field, double& value, std::string help);
Setting text_setting(std::string option, std::string field, std::string& value, std::string help);
Setting integers_setting(std::string option, std::string field, std::vector<int64_t>& value,
                         int64_t least, int64_t most, std::string help);
/// An integer kept in another form, which get and set translate.
Setting computed_setting(std::string option, std::string field, int64_t least, int64_t most,
                         std::function<int64_t()> get, std::function<void(int64_t)> set,
                         std::string help);
/// One of `choices`; get and set translate between them and whatever is stored.
Setting choice_setting(std::string option, std::string field, std::vector<std::string> choices,
                       std::function<std::string()> get,
                       std::function<void(const std::string&)> set, std::string help);

inline constexpr int64_t kMostSteps = int64_t{1} << 40;  // of any count in a run

}  // namespace dp
