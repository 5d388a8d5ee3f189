// What a projection has to give so that SiLU, and the L2 norm of keys after it, make the vector wanted.
#pragma once
#include <vector>

namespace dp::theory {

/// The least value of SiLU, and where it is.
inline constexpr double kLeastSilu = -0.27846454276107374, kLeastSiluAt = -1.2784645427610738;

double silu(double x);
/// The x >= kLeastSiluAt with silu(x) = y. Throws std::invalid_argument for y below kLeastSilu.
double inverse_silu(double y);

/// Which numbers there are. All of float32 are close enough to what is wanted; of bfloat16, with 8 bits, those are
/// taken that have the direction wanted best, among many lengths of the key.
enum class Grid { kFloat32, kBfloat16 };

/// u whose SiLUs have the direction of k, long enough that the norm's 1e-6 matters as little as it can: that is
/// not at all if no entry is negative. Entries near 0 become exactly 0.
std::vector<double> unit_preactivations(const std::vector<double>& k, Grid grid = Grid::kFloat32);

}  // namespace dp::theory
