#include "io/operator_file.h"

#include "base/error.h"
#include "base/quote.h"

namespace dp::golden {

OperatorFile::OperatorFile(const std::filesystem::path& path) : file(path) {
  const auto fail = [&](const std::string& problem) {
    throw InputError(file.path().string() + ": " + problem);
  };
  for (const char* name : {"q", "k", "v"})
    if (const std::vector<int64_t>& shape = file.at(name).shape; shape.size() != 4)
      fail("tensor " + quote(name) + " must have four dimensions, got shape " + shape_text(shape));
  const std::vector<int64_t>& q = file.at("q").shape;
  const int64_t rows = file.at("k").shape[1];
  B = q[0], T = q[1], H = q[2], K = q[3], V = file.at("v").shape[3];
  if (T == 0 || rows == 0 || rows % T != 0)
    fail("tensor 'k' has " + std::to_string(rows) + " rows, which is not a multiple of the " +
         std::to_string(T) + " of 'q'");
  N = rows / T;
  shapes = {{"scale", {}}, {"q", {B, T, H, K}},    {"k", {B, rows, H, K}}, {"v", {B, rows, H, V}},
            {"o", {B, T, H, V}}, {"ht", {B, H, K, V}}, {"beta", {B, rows, H}}};
  if (file.find("g")) shapes["g"] = {B, T, H};
  if (file.find("h0")) shapes["h0"] = {B, H, K, V};
  std::map<std::string, std::vector<int64_t>> gradients;
  for (const auto& [name, shape] : shapes)
    if (name != "scale") gradients["d" + name] = shape;
  shapes.merge(gradients);
  for (const auto& [name, shape] : shapes)
    if (const std::vector<int64_t>& found = file.at(name).shape; found != shape)
      fail("tensor " + quote(name) + " must have shape " + shape_text(shape) + ", got " +
           shape_text(found));
}

}  // namespace dp::golden
