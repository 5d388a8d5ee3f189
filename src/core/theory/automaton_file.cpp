#include "theory/automaton_file.h"

#include <algorithm>
#include <map>

#include "base/closest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"

namespace dp {
namespace {

constexpr size_t kMostStates = 10'000, kMostSymbols = 1000;
constexpr uintmax_t kLargestAutomatonFile = 16 << 20;

class AutomatonReader {
 public:
  using Json = nlohmann::json;

  AutomatonReader(const std::string& text, const std::string& file)
      : file_(file), object_(parse_json(text, file, "the automaton")) {
    if (!object_.is_object())
      throw InputError(file + ": expected a JSON object, found " + object_.type_name());
  }

  Automaton read() {
    refuse_other_fields();
    Automaton automaton;
    automaton.alphabet = names("alphabet", kMostSymbols, symbols_);
    automaton.state_names = names("states", kMostStates, states_);
    automaton.start = state("start", field("start"));
    automaton.accepting.resize(automaton.state_names.size());
    const Json& accepting = field("accepting");
    if (!accepting.is_array()) fail("accepting", accepting, "a list of states");
    for (const Json& name : accepting) {
      std::vector<bool>::reference flag =
          automaton.accepting[static_cast<size_t>(state("accepting", name))];
      if (flag) fail("accepting", name, "each state once");
      flag = true;
    }
    read_transitions(automaton);
    return automaton;
  }

 private:
  void refuse_other_fields() const {
    static const std::vector<std::string> known = {"alphabet",  "states",      "start",
                                                   "accepting", "transitions", "sink"};
    for (const auto& [name, value] : object_.items()) {
      if (std::ranges::find(known, name) != known.end()) continue;
      std::string expected = "expected alphabet, states, start, accepting, transitions or sink";
      if (const std::string meant = closest(name, known); !meant.empty())
        expected = "did you mean " + quote(meant) + "?";
      throw InputError(file_ + ": field " + quote(name) + " is not known; " + expected);
    }
  }

  const Json& field(const std::string& name) const {
    const auto found = object_.find(name);
    if (found == object_.end())
      throw InputError(file_ + ": field " + quote(name) + " is missing, expected " +
                       (name == "start"         ? "a state"
                        : name == "transitions" ? "an object"
                                                : "a list"));
    return *found;
  }

  /// The strings of a list, all different, whose positions are entered in `positions`.
  std::vector<std::string> names(const std::string& field_name, size_t most,
                                 std::map<std::string, int32_t>& positions) const {
    const Json& list = field(field_name);
    const std::string expected = "a list of 1 to " + std::to_string(most) + " different names";
    if (!list.is_array() || list.empty()) fail(field_name, list, expected);
    if (list.size() > most)
      fail_value(field_name, "a list of " + std::to_string(list.size()), expected);
    std::vector<std::string> result;
    for (const Json& name : list) {
      const std::string where = field_name + "[" + std::to_string(result.size()) + "]";
      if (!name.is_string() || name.get_ref<const std::string&>().empty())
        fail(where, name, "a name: a string that is not empty");
      if (!positions.try_emplace(name, static_cast<int32_t>(result.size())).second)
        fail(where, name, "a name that was not there before");
      result.push_back(name);
    }
    return result;
  }

  int32_t state(const std::string& where, const Json& name) const {
    if (!name.is_string()) fail(where, name, "the name of a state");
    const auto found = states_.find(name);
    if (found == states_.end()) fail(where, name, "one of the states");
    return found->second;
  }

  void read_transitions(Automaton& automaton) const {
    const int32_t sink = object_.contains("sink") ? state("sink", object_.at("sink")) : -1;
    automaton.moves.assign(automaton.alphabet.size(), StateMap(automaton.state_names.size(), sink));
    const Json& transitions = field("transitions");
    if (!transitions.is_object())
      fail("transitions", transitions, "an object {state: {symbol: state}}");
    for (const auto& [from, row] : transitions.items()) {
      const std::string where = "transitions." + from;
      const auto source = states_.find(from);
      if (source == states_.end())
        fail_value("transitions", "naming " + quote(from), "states only");
      if (!row.is_object()) fail(where, row, "an object {symbol: state}");
      for (const auto& [by, target] : row.items()) {
        const auto symbol = symbols_.find(by);
        if (symbol == symbols_.end()) fail_value(where, "naming " + quote(by), "symbols only");
        automaton.moves[static_cast<size_t>(symbol->second)][static_cast<size_t>(source->second)] =
            state(where + "." + by, target);
      }
    }
    for (const auto& [from, q] : states_)
      for (const auto& [by, symbol] : symbols_)
        if (automaton.next(q, symbol) < 0)
          fail_value("transitions." + from + "." + by, "missing",
                     "a state, or a field 'sink' that names one for all that are missing");
  }

  [[noreturn]] void fail(const std::string& where, const Json& found,
                         const std::string& expected) const {
    fail_value(where, quote(found.dump(-1, ' ', false, Json::error_handler_t::replace)), expected);
  }
  [[noreturn]] void fail_value(const std::string& where, const std::string& found,
                               const std::string& expected) const {
    throw InputError(file_ + ": field " + quote(where) + " is " + found + ", expected " + expected);
  }

  const std::string file_;
  const Json object_;
  std::map<std::string, int32_t> symbols_, states_;
};

}  // namespace

Automaton parse_automaton(const std::string& json_text, const std::string& file) {
  return AutomatonReader(json_text, file).read();
}

Automaton read_automaton(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InputError(quote(path.string()) + " is not an automaton: expected a JSON file");
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > kLargestAutomatonFile)
    throw InputError(path.string() + ": " + std::to_string(size) +
                     " bytes, expected an automaton of at most " +
                     std::to_string(kLargestAutomatonFile));
  const std::optional<std::string> text = read_file(path);
  if (!text) throw InputError(path.string() + ": cannot be read");
  return parse_automaton(*text, path.string());
}

std::string to_json(const Automaton& automaton) {
  using OrderedJson =
      nlohmann::ordered_json;  // fields and states in the order in which one reads them
  OrderedJson accepting = OrderedJson::array(), transitions = OrderedJson::object();
  for (int32_t q = 0; q < automaton.num_states(); ++q) {
    const std::string& name = automaton.state_names[static_cast<size_t>(q)];
    if (automaton.accepting[static_cast<size_t>(q)]) accepting.push_back(name);
    OrderedJson row = OrderedJson::object();
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol)
      row[automaton.alphabet[static_cast<size_t>(symbol)]] =
          automaton.state_names[static_cast<size_t>(automaton.next(q, symbol))];
    transitions.push_back({name, std::move(row)});
  }
  OrderedJson object;
  object["alphabet"] = automaton.alphabet;
  object["states"] = automaton.state_names;
  object["start"] = automaton.state_names[static_cast<size_t>(automaton.start)];
  object["accepting"] = std::move(accepting);
  object["transitions"] = std::move(transitions);
  return object.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dp
