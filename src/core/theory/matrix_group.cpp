#include "theory/matrix_group.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"

namespace dp::theory {
namespace {

constexpr double kSameMatrix = 1e-6;

Matrix parse_generator(const nlohmann::json& rows, const std::string& what) {
  const auto n = rows.is_array() ? rows.size() : 0;
  if (n == 0 || n > static_cast<size_t>(MatrixGroup::kMaxDimension))
    throw InputError(what + ": expected a square matrix of 1 to " +
                     std::to_string(MatrixGroup::kMaxDimension) + " rows");
  Matrix m(n, n);
  for (size_t i = 0; i < n; ++i) {
    if (!rows[i].is_array() || rows[i].size() != n)
      throw InputError(what + ": row " + std::to_string(i + 1) + " must have " + std::to_string(n) +
                       " numbers, for the matrix to be square");
    for (size_t j = 0; j < n; ++j) {
      if (!rows[i][j].is_number())
        throw InputError(what + ": row " + std::to_string(i + 1) + " must have numbers only");
      m(i, j) = rows[i][j].get<double>();
    }
  }
  const double error = largest_entry(transpose(m) * m - identity(n));
  if (!(error <= 1e-9)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2g", error);
    throw InputError(what +
                     ": expected an orthogonal matrix, but its columns' products differ from those "
                     "of unit vectors by " +
                     std::string(text));
  }
  return m;
}

bool is_same(const Matrix& a, const Matrix& b) {
  for (size_t i = 0; i < a.values().size(); ++i)
    if (!(std::abs(a.values()[i] - b.values()[i]) < kSameMatrix)) return false;
  return true;
}

}  // namespace

MatrixGroup parse_matrix_group(const std::string& json_text, const std::string& file) {
  const nlohmann::json json = parse_json(json_text, file, "the matrices");
  if (!json.is_object() || !json.contains("generators") || !json["generators"].is_object() ||
      json["generators"].empty())
    throw InputError(
        file +
        ": expected an object with a field \"generators\", which has a matrix for each name");
  MatrixGroup group;
  std::vector<Matrix> generators;
  for (const auto& [name, rows] : json["generators"].items()) {
    const std::string what = file + ": generator " + quote(name);
    if (name.empty() || name.find_first_of(" \t\n.") != std::string::npos)
      throw InputError(what + ": a name must have neither spaces nor dots");
    generators.push_back(parse_generator(rows, what));
    if (generators.back().rows() != generators.front().rows())
      throw InputError(what + ": expected " + std::to_string(generators.front().rows()) +
                       " rows as the first has, found " + std::to_string(generators.back().rows()));
    group.automaton.alphabet.push_back(name);
  }
  group.automaton.moves.resize(generators.size());
  std::vector<Matrix>& elements = group.representation.matrices;
  elements.push_back(identity(generators.front().rows()));
  group.automaton.state_names = {"1"};
  for (size_t at = 0; at < elements.size(); ++at)
    for (size_t x = 0; x < generators.size(); ++x) {
      Matrix next = generators[x] * elements[at];
      size_t found = 0;
      while (found < elements.size() && !is_same(elements[found], next)) ++found;
      if (found == elements.size()) {
        if (elements.size() == static_cast<size_t>(MatrixGroup::kMaxElements))
          throw InputError(file + ": the matrices generate more than " +
                           std::to_string(MatrixGroup::kMaxElements) +
                           " elements, expected a finite group of at most so many");
        elements.push_back(std::move(next));
        group.automaton.state_names.push_back(
            (at == 0 ? "" : group.automaton.state_names[at] + ".") + group.automaton.alphabet[x]);
      }
      group.automaton.moves[x].push_back(static_cast<int32_t>(found));
    }
  group.automaton.accepting.assign(elements.size(), false);
  group.automaton.accepting[0] = true;
  group.representation.name = "the matrices of " + file;
  return group;
}

MatrixGroup read_matrix_group(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text)
    throw InputError(quote(path.string()) + " cannot be read: expected a JSON file of matrices");
  return parse_matrix_group(*text, path.string());
}

}  // namespace dp::theory
