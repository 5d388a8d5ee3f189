#include "chat/render.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/quote.h"
#include "chat/builtins.h"

namespace dp::chat {
namespace {

constexpr int kDeepestMacro = 10;
// About what they cost, in bytes copied.
constexpr size_t kStep = 16, kRound = 256;

// Python's division and remainder round towards minus infinity.
int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Value integer_arithmetic(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (sign == "+")
    overflow = __builtin_add_overflow(a, b, &result);
  else if (sign == "-")
    overflow = __builtin_sub_overflow(a, b, &result);
  else if (sign == "*")
    overflow = __builtin_mul_overflow(a, b, &result);
  else if (b == 0)
    throw TemplateError("a number is divided by 0");
  else if (b == -1)
    overflow = __builtin_sub_overflow(int64_t{0}, a, &result), result = sign == "%" ? 0 : result;
  else
    result = sign == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
  if (overflow) throw TemplateError("a number is too large");
  return result;
}

Value arithmetic(std::string_view sign, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number())
    throw TemplateError("found " + a.kind() + " " + std::string(sign) + " " + b.kind() +
                        ", expected two numbers");
  if (sign != "/" && !a.is_float() && !b.is_float())
    return integer_arithmetic(sign, a.integer(), b.integer());
  const double x = a.number(), y = b.number();
  if (sign == "+") return x + y;
  if (sign == "-") return x - y;
  if (sign == "*") return x * y;
  if (y == 0) throw TemplateError("a number is divided by 0");
  if (sign == "/") return x / y;
  return sign == "//" ? std::floor(x / y) : x - std::floor(x / y) * y;
}

class Renderer {
 public:
  Renderer(const Value& variables, const RenderLimits& limits)
      : limits_(limits), budget_(limits.cost) {
    for (const auto& [name, value] : variables.dict()) scopes_.front()[name] = value;
  }

  std::string render(const Body& body) {
    run(body);
    return std::move(output_);
  }

 private:
  using Kind = Expression::Kind;
  enum class Flow { kGoesOn, kBreak, kContinue };

  void print(std::string_view text) {
    budget_.spend(text.size());
    if (output_.size() + text.size() > limits_.output_bytes)
      throw TemplateError("it makes more than " + std::to_string(limits_.output_bytes) +
                          " bytes of text");
    output_ += text;
  }

  // What `work` prints, instead of printing it.
  template <class Work>
  std::string printed(Work work) {
    std::string outer = std::exchange(output_, {});
    work();
    return std::exchange(output_, std::move(outer));
  }

  Flow run(const Body& body) {
    for (const Statement& statement : body) {
      budget_.spend(kStep);
      try {
        if (const Flow flow = run(statement); flow != Flow::kGoesOn) return flow;
      } catch (const TemplateError& error) {
        const std::string message = error.what();
        if (message.starts_with("line ")) throw;
        throw TemplateError("line " + std::to_string(statement.line) + ": " + message);
      }
    }
    return Flow::kGoesOn;
  }

  Flow run(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kText:
        print(statement.text);
        break;
      case Statement::Kind::kPrint:
        print(evaluate(*statement.expression).text());
        break;
      case Statement::Kind::kIf:
        for (const auto& [condition, body] : statement.branches)
          if (!condition || evaluate(*condition).truth()) return run(body);
        break;
      case Statement::Kind::kFor:
        return run_loop(statement);
      case Statement::Kind::kSet:
        set(statement);
        break;
      case Statement::Kind::kSetBlock: {
        std::string text = printed([&] { run(statement.bodies[0]); });
        scopes_.back()[statement.names[0]] = std::move(text);
        break;
      }
      case Statement::Kind::kMacro:
        macros_[statement.text] = &statement;
        break;
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kGoesOn;
  }

  void set(const Statement& statement) {
    const Value value = evaluate(*statement.expression);
    if (statement.member.empty()) return assign(statement.names, value);
    const Value* target = find(statement.names[0]);
    if (!target) throw TemplateError(quote(statement.names[0]) + " is undefined");
    target->assign(statement.member, value);
  }

  // One name takes the value, several its elements.
  void assign(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) {
      scopes_.back()[names[0]] = value;
      return;
    }
    const Value::List all = elements(value);
    if (all.size() != names.size())
      throw TemplateError("found " + std::to_string(all.size()) + " values, expected " +
                          std::to_string(names.size()));
    for (size_t i = 0; i < names.size(); ++i) scopes_.back()[names[i]] = all[i];
  }

  Flow run_loop(const Statement& loop) {
    Value::List all = elements(evaluate(*loop.expression));
    budget_.spend(all.size());
    if (loop.condition) {
      scopes_.emplace_back();
      std::erase_if(all, [&](const Value& item) {
        assign(loop.names, item);
        return !evaluate(*loop.condition).truth();
      });
      scopes_.pop_back();
    }
    if (all.empty() && loop.bodies.size() > 1) return run(loop.bodies[1]);
    const auto count = static_cast<int64_t>(all.size());
    for (int64_t i = 0; i < count; ++i) {
      budget_.spend(kRound);
      scopes_.emplace_back();
      assign(loop.names, all[static_cast<size_t>(i)]);
      scopes_.back()["loop"] = Value::Dict{
          {"index", i + 1},
          {"index0", i},
          {"revindex", count - i},
          {"revindex0", count - i - 1},
          {"first", i == 0},
          {"last", i + 1 == count},
          {"length", count},
          {"previtem", i > 0 ? all[static_cast<size_t>(i - 1)] : Value::undefined("previtem")},
          {"nextitem",
           i + 1 < count ? all[static_cast<size_t>(i + 1)] : Value::undefined("nextitem")}};
      const Flow flow = run(loop.bodies[0]);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kGoesOn;
  }

  const Value* find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    return nullptr;
  }

  Value evaluate(const Expression* expression) {
    return expression ? evaluate(*expression) : Value();
  }

  Value evaluate(const Expression& e) {
    budget_.spend(kStep);
    switch (e.kind) {
      case Kind::kLiteral:
        return e.value;
      case Kind::kName: {
        const Value* found = find(e.name);
        if (found) return *found;
        // Functions are called by their names and are no values, but templates ask whether they are defined.
        return is_known_function(e.name) || macros_.contains(e.name) ? Value(true)
                                                                     : Value::undefined(e.name);
      }
      case Kind::kList:
        return evaluate_all(e.parts, 0);
      case Kind::kDict:
        return make_dict(e);
      case Kind::kMember:
        return charged(element(evaluate(*e.parts[0]), e.name));
      case Kind::kIndex: {
        const Value value = evaluate(*e.parts[0]);
        if (value.is_string()) budget_.spend(value.size());
        return element(value, evaluate(*e.parts[1]));
      }
      case Kind::kSlice: {
        const Value value = evaluate(*e.parts[0]);
        budget_.spend(value.size());
        return slice(value, evaluate(e.parts[1].get()), evaluate(e.parts[2].get()),
                     evaluate(e.parts[3].get()));
      }
      case Kind::kCall:
        return call(e);
      case Kind::kMethod:
      case Kind::kFilter: {
        const Value value = evaluate(*e.parts[0]);
        budget_.spend(value.size());
        const Arguments given = arguments(e, 1);
        if (e.kind == Kind::kFilter) return charged(apply_filter(e.name, value, given, budget_));
        if (value.is_undefined())
          throw TemplateError("found " + value.kind() + ", expected a value with " + quote(e.name));
        return charged(call_method(e.name, value, given, budget_));
      }
      case Kind::kTest: {
        const Value value = evaluate(*e.parts[0]);
        return apply_test(e.name, value, evaluate_all(e.parts, 1));
      }
      case Kind::kNot:
        return !evaluate(*e.parts[0]).truth();
      case Kind::kNegate:
        return arithmetic("-", 0, evaluate(*e.parts[0]));
      case Kind::kBinary:
        return binary(e);
      case Kind::kCompare:
        return compare(e);
      case Kind::kAnd:
      case Kind::kOr: {
        Value value;
        for (const ExpressionPtr& part : e.parts)
          if ((value = evaluate(*part)).truth() == (e.kind == Kind::kOr)) break;
        return value;
      }
      case Kind::kCondition:
        return evaluate(*e.parts[1]).truth() ? evaluate(*e.parts[0]) : evaluate(e.parts[2].get());
    }
    return {};
  }

  Value charged(Value value) {
    budget_.spend(value.size());
    return value;
  }

  Value::List evaluate_all(const std::vector<ExpressionPtr>& parts, size_t first) {
    Value::List all;
    for (size_t i = first; i < parts.size(); ++i) all.push_back(evaluate(*parts[i]));
    return all;
  }

  Arguments arguments(const Expression& e, size_t first) {
    Arguments::Named named;
    for (const auto& [name, part] : e.named) named.emplace_back(name, evaluate(*part));
    return {evaluate_all(e.parts, first), std::move(named)};
  }

  Value make_dict(const Expression& e) {
    Value::Dict dict;
    for (size_t i = 0; i < e.parts.size(); i += 2) {
      const std::string name = evaluate(*e.parts[i]).string();
      const auto same = std::ranges::find(dict, name, &Value::Dict::value_type::first);
      Value& value = same == dict.end() ? dict.emplace_back(name, Value()).second : same->second;
      value = evaluate(*e.parts[i + 1]);
    }
    return dict;
  }

  Value binary(const Expression& e) {
    const Value a = evaluate(*e.parts[0]), b = evaluate(*e.parts[1]);
    if (e.name == "~") return charged(a.text() + b.text());
    if (e.name == "+" && a.is_string() && b.is_string()) return charged(a.string() + b.string());
    if (e.name == "+" && a.is_list() && b.is_list()) {
      Value::List both = a.list();
      both.insert(both.end(), b.list().begin(), b.list().end());
      return charged(both);
    }
    if (e.name == "*" && (a.is_string() || b.is_string())) {
      const int64_t times = std::max<int64_t>(0, (a.is_string() ? b : a).integer());
      const std::string& text = (a.is_string() ? a : b).string();
      if (static_cast<double>(times) * static_cast<double>(text.size()) >
          static_cast<double>(limits_.output_bytes))
        throw TemplateError("a text is repeated too often");
      std::string out;
      for (int64_t i = 0; i < times && !text.empty(); ++i) out += text;
      return charged(out);
    }
    return arithmetic(e.name, a, b);
  }

  Value compare(const Expression& e) {
    Value left = evaluate(*e.parts[0]);
    for (size_t i = 0; i < e.names.size(); ++i) {
      const Value right = evaluate(*e.parts[i + 1]);
      const std::string& sign = e.names[i];
      budget_.spend(left.size() + right.size());
      const bool holds = sign == "=="       ? left == right
                         : sign == "!="     ? !(left == right)
                         : sign == "in"     ? contains(right, left)
                         : sign == "not in" ? !contains(right, left)
                         : sign == "<"      ? less(left, right)
                         : sign == ">"      ? less(right, left)
                         : sign == "<="     ? !less(right, left)
                                            : !less(left, right);
      if (!holds) return false;
      left = right;
    }
    return true;
  }

  Value call(const Expression& e) {
    const Arguments given = arguments(e, 0);
    const auto macro = macros_.find(e.name);
    if (macro != macros_.end()) return call_macro(*macro->second, given);
    if (!is_known_function(e.name))
      throw TemplateError("the macro " + quote(e.name) + " is not defined yet");
    return call_function(e.name, given, budget_);
  }

  Value call_macro(const Statement& macro, const Arguments& given) {
    if (++macros_open_ > kDeepestMacro)
      throw TemplateError("macros call each other more than 10 deep");
    Scope parameters;
    for (size_t i = 0; i < macro.names.size(); ++i) {
      const Value* found = given.find(i, macro.names[i]);
      parameters[macro.names[i]] = found               ? *found
                                   : macro.defaults[i] ? evaluate(*macro.defaults[i])
                                                       : Value::undefined(macro.names[i]);
    }
    if (given.count() > macro.names.size())
      throw TemplateError("the macro " + quote(macro.text) + " takes fewer arguments");
    for (const auto& [name, value] : given.named())
      if (std::ranges::find(macro.names, name) == macro.names.end())
        throw TemplateError("the macro " + quote(macro.text) + " has no parameter " + quote(name));
    // A macro sees the template's own variables, not those of the loops that it is called in.
    std::vector<Scope> outer(std::make_move_iterator(scopes_.begin() + 1),
                             std::make_move_iterator(scopes_.end()));
    scopes_.resize(1);
    scopes_.push_back(std::move(parameters));
    std::string text = printed([&] { run(macro.bodies[0]); });
    scopes_.resize(1);
    std::ranges::move(outer, std::back_inserter(scopes_));
    --macros_open_;
    return text;
  }

  using Scope = std::map<std::string, Value>;
  const RenderLimits limits_;
  Budget budget_;
  std::vector<Scope> scopes_{1};
  std::map<std::string, const Statement*> macros_;
  std::string output_;
  int macros_open_ = 0;
};

}  // namespace

std::string render_template(const Body& body, const Value& variables, const RenderLimits& limits) {
  return Renderer(variables, limits).render(body);
}

}  // namespace dp::chat
