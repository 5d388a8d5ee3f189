#include "report/chart_list.h"

namespace dp::report {

using nlohmann::ordered_json;

std::string ChartList::add(const std::vector<ChartVariant>& variants) {
  auto list = ordered_json::array();
  for (const ChartVariant& variant : variants)
    list.push_back(
        {{"when", variant.when}, {"spec", variant.spec}, {"data", add_data(variant.data)}});
  places_.push_back(std::move(list));
  return "<figure class=\"chart\" data-chart=\"" + std::to_string(places_.size() - 1) +
         "\"></figure>\n";
}

size_t ChartList::add_data(const ordered_json& data) {
  const std::string text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  const auto [place, is_new] = known_.try_emplace(text, data_.size());
  if (is_new) data_.push_back(data);
  return place->second;
}

}  // namespace dp::report
