// Elements, composition tables and inverses against GAP, run as a process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

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

}  // namespace
}  // namespace dp
