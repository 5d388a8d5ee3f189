// A chat template as a tree. The language is a subset of Jinja's (docs/language.md lists it); what is not in it is refused
// when the template is read.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/value.h"

namespace dp::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kLiteral,    // value
    kName,       // name
    kList,       // parts
    kDict,       // parts: key, value, key, value, ...
    kMember,     // parts[0].name
    kIndex,      // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], each of the three may be null
    kCall,       // name(parts, named)
    kMethod,     // parts[0].name(parts from 1 on, named)
    kFilter,     // parts[0] | name(parts from 1 on, named)
    kTest,       // parts[0] is name(parts from 1 on)
    kNot,        // not parts[0]
    kNegate,     // -parts[0]
    kBinary,     // parts[0] name parts[1]
    kCompare,    // parts[0] names[0] parts[1] names[1] parts[2] ...
    kAnd,        // parts[0] and parts[1] and ...
    kOr,         // parts[0] or parts[1] or ...
    kCondition,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind = Kind::kLiteral;
  size_t line = 1;
  std::string name;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,      // text
    kPrint,     // expression
    kIf,        // branches; the last may have no condition
    kFor,       // for names in expression if condition: bodies[0], else bodies[1]
    kSet,       // names = expression, or names[0].member = expression
    kSetBlock,  // names[0] = the output of bodies[0]
    kMacro,     // text(names, with defaults): bodies[0]
    kBreak,
    kContinue
  };
  Kind kind = Kind::kText;
  size_t line = 1;
  std::string text, member;
  ExpressionPtr expression, condition;
  std::vector<std::string> names;
  std::vector<ExpressionPtr> defaults;  // of a macro's parameters, null: none
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  std::vector<Body> bodies;
};

/// Throws TemplateError, naming the line.
Body parse_template(std::string_view source);

/// Names that the renderer knows: what else a template calls is refused when it is read.
bool is_known_filter(std::string_view name);
bool is_known_test(std::string_view name);
bool is_known_method(std::string_view name);
bool is_known_function(std::string_view name);

}  // namespace dp::chat
