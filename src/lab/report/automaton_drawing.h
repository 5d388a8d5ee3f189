// The graph of an automaton as SVG, to go into a page.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "algebra/automaton.h"

namespace dp::report {

inline constexpr int32_t kMostDrawnStates = 30;

/// All symbols that lead from one state to another.
struct Edge {
  int32_t from = 0, to = 0;
  std::vector<int32_t> symbols;  // ascending, at least one
};
/// Those of states that the start leads to, by state; each pair of states is there at most once.
std::vector<Edge> merged_edges(const Automaton& automaton);

/// "a, b"; for many symbols "all but c" or the first few.
std::string edge_label(const Automaton& automaton, const Edge& edge);

/// States on a circle, in an order that keeps edges short, the start leftmost: no edge passes through a third
/// state. Elements have classes, and data-state="q" or data-edge="p-q" to find them by; the look is
/// web/style.css's. States that the start does not lead to are left out.
std::string draw(const Automaton& automaton);

}  // namespace dp::report
