#include "report/metrics.h"

#include <fstream>
#include <map>
#include <string>

#include "train/run.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;

// A fraction or a number beyond 64 bits is refused as text would be.
int64_t integer(const ordered_json& row, const char* field) {
  return row.at(field).get_ref<const ordered_json::number_unsigned_t&>() <= INT64_MAX
             ? row[field].get<int64_t>()
             : throw ordered_json::out_of_range::create(400, field, &row);
}

void check_row(const ordered_json& row) {
  for (const char* field : {"step", "length"}) integer(row, field);
  // Of `integer`, the largest step leaves room for an offset.
  if (row["step"].get<int64_t>() == INT64_MAX)
    throw ordered_json::out_of_range::create(400, "step", &row);
  if (row.contains("tokens")) integer(row, "tokens");
  for (const char* field : {"loss", "accuracy", "seconds"})
    static_cast<void>(row.at(field).get<double>());
  if (row.contains("evaluation")) check_lengths(row["evaluation"]);
}

struct Point {
  int64_t count = 0, length = 0, tokens = 0;
  double loss = 0, accuracy = 0;
};

ordered_json columns(const std::map<int64_t, Point>& points, int64_t width) {
  ordered_json curve = {{"width", width},
                        {"step", ordered_json::array()},
                        {"count", ordered_json::array()},
                        {"loss", ordered_json::array()},
                        {"accuracy", ordered_json::array()},
                        {"length", ordered_json::array()},
                        {"tokens", ordered_json::array()}};
  for (const auto& [index, point] : points) {
    const auto count = static_cast<double>(point.count);
    curve["step"].push_back((index + 1) * width);
    curve["count"].push_back(point.count);
    curve["loss"].push_back(point.loss / count);
    curve["accuracy"].push_back(point.accuracy / count);
    curve["length"].push_back(point.length);
    curve["tokens"].push_back(point.tokens);
  }
  return curve;
}

// Points for twice as many steps each.
std::map<int64_t, Point> halved(const std::map<int64_t, Point>& points) {
  std::map<int64_t, Point> result;
  for (const auto& [index, point] : points) {
    Point& sum = result[index / 2];
    sum.count += point.count;
    sum.loss += point.loss, sum.accuracy += point.accuracy;
    sum.length = point.length, sum.tokens = point.tokens;
  }
  return result;
}

}  // namespace

void check_lengths(const ordered_json& rows) {
  for (const ordered_json& row : rows) {
    if (integer(row, "length") < 1) throw ordered_json::out_of_range::create(400, "length", &row);
    for (const auto& [name, value] : row.items())
      if (!value.is_null()) static_cast<void>(value.get<double>());
  }
}

int64_t read_metrics(const std::filesystem::path& file,
                     const std::function<void(const ordered_json&)>& row) {
  const int64_t offset = metrics_step_offset(file);
  std::ifstream stream(file, std::ios::binary);
  int64_t broken = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    ordered_json value = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    try {
      check_row(value);
    } catch (const ordered_json::exception&) {  // of at() too: malformed text is not an object
      ++broken;
      continue;
    }
    value["step"] = value["step"].get<int64_t>() + offset;
    row(value);
  }
  return broken;
}

ordered_json summarize_metrics(const std::filesystem::path& file, int64_t most_points) {
  std::map<int64_t, Point> points;
  int64_t width = 1, steps = 0, tokens = 0, timed_tokens = 0;
  double seconds = 0, timed_seconds = 0;
  auto evaluations = ordered_json::array();
  const int64_t broken = read_metrics(file, [&](const ordered_json& row) {
    const auto step = row["step"].get<int64_t>(), now = row.value("tokens", int64_t{0});
    const auto time = row["seconds"].get<double>();
    while ((step - 1) / width >= most_points) points = halved(points), width *= 2;
    Point& point = points[(step - 1) / width];
    ++point.count;
    point.loss += row["loss"].get<double>(), point.accuracy += row["accuracy"].get<double>();
    point.length = row["length"].get<int64_t>(), point.tokens = now;
    if (row.contains("evaluation"))
      evaluations.push_back({{"step", step}, {"tokens", now}, {"lengths", row["evaluation"]}});
    else if (now > tokens && time > seconds)
      timed_tokens += now - tokens, timed_seconds += time - seconds;
    steps = std::max(steps, step), tokens = now, seconds = time;
  });
  return {{"steps", steps},
          {"tokens", tokens},
          {"seconds", seconds},
          {"tokens_per_second",
           timed_seconds > 0 ? static_cast<double>(timed_tokens) / timed_seconds : 0},
          {"broken_lines", broken},
          {"curve", columns(points, width)},
          {"evaluations", std::move(evaluations)}};
}

}  // namespace dp::report
