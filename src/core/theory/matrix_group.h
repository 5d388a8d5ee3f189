// Finite groups that are given by orthogonal matrices.
#pragma once
#include <filesystem>
#include <string>

#include "algebra/automaton.h"
#include "theory/representation.h"

namespace dp::theory {

/// Symbols are the generators and states the elements; the start is the identity. An element is named by the first of
/// the shortest words that lead to it, "a.b" being first a, then b, and the identity is "1".
struct MatrixGroup {
  Automaton automaton;
  Representation representation;  // the matrix of each element

  static constexpr int64_t kMaxElements = 5040;
  static constexpr int64_t kMaxDimension = 16;
};

/// Reads {"generators": {"a": [[0, -1], [1, 0]], "b": [[1, 0], [0, -1]]}}. Throws InputError that names the file and the
/// generator unless all are square and of one size, orthogonal to 1e-9, and generate at most kMaxElements elements.
MatrixGroup parse_matrix_group(const std::string& json_text, const std::string& file);
MatrixGroup read_matrix_group(const std::filesystem::path& path);

}  // namespace dp::theory
