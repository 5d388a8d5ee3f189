// Elements, composition tables and inverses against GAP, run as a process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algebra/character_ranks.h"
#include "algebra/group.h"

namespace dp {
namespace {

struct Case {
  const char* name;
  const char* gap;  // the same group, acting on the same points
};

const Case kCases[] = {
    {"Z1", "Group(())"},
    {"Z7", "CyclicGroup(IsPermGroup, 7)"},
    {"Z12", "CyclicGroup(IsPermGroup, 12)"},
    {"D3", "DihedralGroup(IsPermGroup, 6)"},
    {"D4", "DihedralGroup(IsPermGroup, 8)"},
    {"D9", "DihedralGroup(IsPermGroup, 18)"},
    {"S3", "SymmetricGroup(3)"},
    {"S4", "SymmetricGroup(4)"},
    {"S5", "SymmetricGroup(5)"},
    {"A4", "AlternatingGroup(4)"},
    {"A5", "AlternatingGroup(5)"},
    {"A6", "AlternatingGroup(6)"},
    {"S3xZ2", "DirectProduct(SymmetricGroup(3), CyclicGroup(IsPermGroup, 2))"},
    {"Z2xZ2xZ2", "DirectProduct(List([1..3], i -> CyclicGroup(IsPermGroup, 2)))"},
    {"D4xA4", "DirectProduct(DihedralGroup(IsPermGroup, 8), AlternatingGroup(4))"},
};

bool gap_is_installed() { return std::system("command -v gap >/dev/null 2>&1") == 0; }

/// What GAP prints, all numbers counted from 1: for every group its order; for every element, in
/// GAP's order of permutations, its images and the number of its inverse; the table of products.
std::string gap_script() {
  std::ostringstream script;
  script << "SetPrintFormattingStatus(\"*stdout*\", false);\n"
            "show := function(numbers) local i; for i in numbers do Print(i, \" \"); od; end;\n"
            "describe := function(group, degree)\n"
            "  local elements, element, row;\n"
            "  elements := AsSSortedList(group);\n"
            "  Print(Length(elements), \" \");\n"
            "  for element in elements do\n"
            "    show(ListPerm(element, degree));\n"
            "    Print(Position(elements, element^-1), \" \");\n"
            "  od;\n"
            "  for row in MultiplicationTable(elements) do show(row); od;\n"
            "  Print(\"\\n\");\n"
            "end;\n";
  for (const Case& c : kCases)
    script << "describe(" << c.gap << ", " << FiniteGroup::parse(c.name).degree() << ");\n";
  return script.str() + "QUIT;\n";
}

/// The output of `gap` for a script; the empty string if it fails.
std::string run_gap(const std::string& script) {
  char path[] = "/tmp/dp_group_gap_test_XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return "";
  close(file);
  std::ofstream(path) << script;
  const std::string command = std::string("gap -q -A --norepl ") + path + " </dev/null 2>&1";
  std::string output;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char buffer[4096];
    while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
    if (pclose(pipe) != 0) output.clear();
  }
  std::remove(path);
  return output;
}

// GAP's permutations act from the right: i^(a*b) = (i^a)^b, first a, then b. Its product a*b is
// therefore our b*a, and its table is ours transposed. Both sort permutations by lists of images.
TEST(FiniteGroup, AgreesWithGap) {
  if (!gap_is_installed()) GTEST_SKIP() << "GAP is not installed (Debian: gap-core)";
  const std::string output = run_gap(gap_script());
  std::istringstream lines(output);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const FiniteGroup group = FiniteGroup::parse(c.name);
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << "GAP printed:\n" << output.substr(0, 2000);
    std::istringstream numbers(line);
    const auto next = [&] {
      int32_t number = 0;
      numbers >> number;
      return number - 1;
    };
    ASSERT_EQ(next() + 1, group.order()) << "GAP printed: " << line.substr(0, 200);
    for (int32_t a = 0; a < group.order(); ++a) {
      for (int64_t i = 0; i < group.degree(); ++i)
        ASSERT_EQ(next(), group.permutation(a)(i)) << "element " << a << ", point " << i;
      ASSERT_EQ(next(), group.inverse(a)) << "inverse of " << a;
    }
    for (int32_t a = 0; a < group.order(); ++a)
      for (int32_t b = 0; b < group.order(); ++b)
        ASSERT_EQ(next(), group.multiply(b, a)) << "GAP's product of " << a << " and " << b;
    ASSERT_TRUE(numbers.good()) << "GAP's table is cut short";
  }
}

// Degrees and ranks of all irreducible real representations, from GAP's character tables: for every element, in the order of
// permutations, the sum of a polynomial of the ranks over the representations, which does not depend on their order.
TEST(IrreducibleRanks, AgreeWithGap) {
  if (!gap_is_installed()) GTEST_SKIP() << "GAP is not installed (Debian: gap-core)";
  const Case cases[] = {
      {"Z7", "CyclicGroup(IsPermGroup, 7)"},
      {"D9", "DihedralGroup(IsPermGroup, 18)"},
      {"S4", "SymmetricGroup(4)"},
      {"S5", "SymmetricGroup(5)"},
      {"A5", "AlternatingGroup(5)"},
      {"A6", "AlternatingGroup(6)"},
      {"D4xA4", "DirectProduct(DihedralGroup(IsPermGroup, 8), AlternatingGroup(4))"}};
  std::ostringstream script;
  script << "SetPrintFormattingStatus(\"*stdout*\", false);\n"
            "ranks := function(group)\n"
            "  local t, irr, ind, fus, g, i, k, chi, o, fixed, sum, times, done;\n"
            "  t := CharacterTable(group); irr := Irr(t); ind := Indicator(t, 2);\n"
            "  for g in AsSSortedList(group) do\n"
            "    sum := 0; o := Order(g);\n"
            "    for i in [1..Length(irr)] do\n"
            "      chi := irr[i];\n"
            "      fixed := Sum([0..o-1], k -> (g^k)^chi) / o;\n"
            "      times := 2; if ind[i] = 1 then times := 1; fi;\n"
            "      done := times * (chi[1] - fixed) + 100 * times * chi[1];\n"
            "      if ind[i] = 0 then sum := sum + done^2 / 2; else sum := sum + done^2; fi;\n"
            "    od;\n"
            "    Print(sum, \" \");\n"
            "  od;\n"
            "  Print(\"\\n\");\n"
            "end;\n";
  for (const Case& c : cases) script << "ranks(" << c.gap << ");\n";
  const std::string output = run_gap(script.str() + "QUIT;\n");
  std::istringstream lines(output);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const FiniteGroup group = FiniteGroup::parse(c.name);
    const auto all = irreducible_ranks(group).value();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << "GAP printed:\n" << output.substr(0, 2000);
    std::istringstream numbers(line);
    for (int32_t g = 0; g < group.order(); ++g) {
      int64_t expected = -1, sum = 0;
      numbers >> expected;
      for (const IrreducibleRanks& one : all) {
        const int64_t both = one.rank[static_cast<size_t>(g)] + 100 * one.degree;
        sum += both * both;
      }
      ASSERT_EQ(sum, expected) << "element " << group.element_name(g) << "; GAP printed "
                               << line.substr(0, 200);
    }
  }
}

}  // namespace
}  // namespace dp
