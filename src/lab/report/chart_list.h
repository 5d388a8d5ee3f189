// The charts of a page, in their places.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dp::report {

/// A chart while all of `when` are chosen among the page's settings: a Vega-Lite specification with a title
/// {text, subtitle}, and the data that it names, {name: [rows]}.
struct ChartVariant {
  std::vector<std::string> when;
  nlohmann::ordered_json spec, data;
};

/// Equal data is on the page once.
class ChartList {
 public:
  /// The element that the page's script puts one of `variants` into.
  std::string add(const std::vector<ChartVariant>& variants);

  /// What the page's script reads.
  nlohmann::ordered_json json() const { return {{"charts", places_}, {"data", data_}}; }

 private:
  size_t add_data(const nlohmann::ordered_json& data);

  nlohmann::ordered_json places_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json data_ = nlohmann::ordered_json::array();
  std::map<std::string, size_t> known_;
};

}  // namespace dp::report
