#include "scenarios/report/manual.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "input/field_schema.hpp"
#include "input/text_stream.hpp"
#include "scenarios/report/report.hpp"

namespace foreduce {
namespace {

/// Lines of at most 98 letters, broken at spaces.
std::string paragraph(const std::string& text, const std::string& indent = "") {
  TextStream words(text);
  std::string out, line = indent;
  bool begun = false;
  for (std::string word; words >> word; begun = true) {
    if (begun && line.size() + 1 + word.size() > 98) {
      out += line + "\n";
      line = indent + word;
    } else {
      line += (begun ? " " : "") + word;
    }
  }
  return out + line + "\n";
}

std::string option_name(const Manual::Option& o) {
  if (o.positional) return o.required ? o.name : "[" + o.name + "]";
  return o.name + (o.flag ? "" : " VALUE");
}

/// " Accepted: all_reduce, broadcast."
std::string accepted_words(const Manual::Option& o) {
  std::string words;
  for (const char c : o.accepted) words += c == ',' ? std::string(", ") : std::string(1, c);
  return words.empty() ? "" : " Accepted: " + words + ".";
}

std::string roff(std::string text) {
  for (std::size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text.starts_with(".") || text.starts_with("'") ? "\\&" + text : text;
}

/// "Examples:\n  foreduce …" as its lines.
std::vector<std::string> examples_of(const std::string& footer) {
  TextStream lines(footer);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) all.push_back(line.substr(2));
  return all;
}

/// What a value may be: "a word of ring, tree, …", "a number from 1 to 4000".
std::string type_words(const Json& schema) {
  if (schema.contains("anyOf")) {
    const Json& options = schema.at("anyOf");
    if (options.size() == 2 && options[1].value("items", Json()) == options[0])
      return type_words(options[0]) + ", or a list of them";
    if (options.size() == 3 && options[2].contains("items"))
      return fmt::format("{}, a range such as {}, or a list of them", type_words(options[0]),
                         options[0].value("type", "") == "string" ? "8B:1GiB:x4" : "1..64:x2");
    std::string all;
    for (const Json& option : options) all += (all.empty() ? "" : ", or ") + type_words(option);
    return all;
  }
  if (schema.contains("enum")) {
    std::string all;
    if (schema.at("enum").size() > 24) return "a name that `foreduce list` prints";
    for (const Json& word : schema.at("enum"))
      if (word.is_string()) all += (all.empty() ? "`" : ", `") + word.get<std::string>() + "`";
    return all;
  }
  const std::string type = schema.value("type", "");
  if (type == "integer" || type == "number") {
    const auto limit = [&](const char* key) {
      return schema.contains(key) ? fmt::format("{:.12g}", schema[key].get<double>())
                                  : std::string();
    };
    std::string text = type == "integer" ? "a whole number" : "a number";
    const std::string least = limit("minimum"), above = limit("exclusiveMinimum"),
                      most = limit("maximum");
    if (!least.empty())
      text += most.empty() ? ", at least " + least : fmt::format(" from {} to {}", least, most);
    else if (!above.empty()) text += " above " + above + (most.empty() ? "" : " to " + most);
    return text;
  }
  if (type == "string" && schema.contains("pattern")) {
    const std::string pattern = schema.at("pattern");
    if (const auto at = pattern.find(" *("); at != std::string::npos) {
      std::string units = pattern.substr(at + 3, pattern.find(")$") - at - 3);
      std::replace(units.begin(), units.end(), '|', ' ');
      if (const auto sign = units.find("[$]"); sign != std::string::npos)
        units.replace(sign, 3, "$");
      return units == ":1" ? "`4:1`" : units == "%" ? "a percentage" : "a quantity in " + units;
    }
    return pattern == kPatchRelease ? "one with its patch number, as `2.20.5`" : "`./file.yaml`";
  }
  return type == "string"   ? "a text"
         : type == "array"  ? "a list"
         : type == "object" ? "a map"
                            : type;
}

void describe_keys(const Json& schema, const std::string& path, std::string& out) {
  const Json none = Json::array();
  const Json required = schema.value("required", none);
  for (const auto& [key, value] : schema.at("properties").items()) {
    const std::string name = path.empty() ? key : path + "." + key;
    const bool must = std::find(required.begin(), required.end(), key) != required.end();
    const std::string type = type_words(value);
    out += fmt::format("\n- `{}`{}\n", name, must ? " (required)" : "");
    out += paragraph(value.value("description", ""), "  ");
    if (type != "a map") out += paragraph("Accepted: " + type + ".", "  ");
    for (const Json& form : value.value("anyOf", none))
      if (form.contains("properties")) describe_keys(form, name, out);
    if (value.contains("properties")) describe_keys(value, name, out);
    else if (value.value("type", "") == "array" && value.at("items").contains("properties"))
      describe_keys(value.at("items"), name + "[]", out);
  }
}

}  // namespace

std::string command_reference(const Manual& m) {
  std::string out =
      "# Commands\n\n`foreduce docs commands` writes this page from the program's own "
      "descriptions.\n\n" +
      paragraph(m.description) +
      "\nExit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130 interrupted.\n\n" +
      paragraph(
          "The answer is no: of predict and compare, a point has no answer; of predict, nothing "
          "fits into the GPUs' memory; of plan, no cluster reaches the goal; of check, a run is "
          "not normal; of run with --check, results are wrong; of test-algorithm, a check fails; "
          "of validate, a prediction is not within the tolerance; of calibrate, the profile does "
          "not describe the logs or messages that it is fitted to.");
  for (const auto& c : m.commands) {
    out += fmt::format("\n## {}\n\n{}\n", c.name, paragraph(c.description));
    for (const auto& o : c.options) {
      out += fmt::format("- `{}`{}\n", option_name(o),
                         o.standard.empty() ? "" : fmt::format(", default `{}`", o.standard));
      out += paragraph(o.description + accepted_words(o), "  ");
    }
    if (const auto examples = examples_of(c.footer); !examples.empty()) {
      out += "\n```\n";
      for (const std::string& line : examples) out += line + "\n";
      out += "```\n";
    }
  }
  return out;
}

std::string man_page(const Manual& m) {
  std::string out =
      fmt::format(".TH FOREDUCE 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", m.name,
                  m.version, m.name, roff(m.description));
  out +=
      fmt::format(".SH SYNOPSIS\n.B {}\n.I command\n[\\fIoption\\fR]...\n.SH COMMANDS\n", m.name);
  for (const auto& c : m.commands) {
    out += fmt::format(".SS {}\n{}\n", c.name, roff(c.description));
    for (const auto& o : c.options)
      out += fmt::format(".TP\n.B {}\n{}{}{}\n", roff(option_name(o)), roff(o.description),
                         roff(accepted_words(o)),
                         o.standard.empty() ? "" : roff(fmt::format(" Default: {}.", o.standard)));
    if (const auto examples = examples_of(c.footer); !examples.empty()) {
      out += ".PP\nExamples:\n.nf\n";
      for (const std::string& line : examples) out += roff(line) + "\n";
      out += ".fi\n";
    }
  }
  return out +
         ".SH EXIT STATUS\n0 fine, 1 the answer is no, 2 bad usage or bad input, 130 "
         "interrupted.\n";
}

std::string scenario_reference(const Json& scenario, const Json& workload) {
  std::string out =
      "# Scenario\n\n`foreduce docs scenario` writes this page from the description that the "
      "loader checks with;\n"
      "`foreduce schema` prints the same as JSON Schema for editors.\n\n" +
      paragraph(
          "A scenario is YAML. Sizes, rates and times carry their unit in the value, and MB and "
          "MiB differ. Paths are relative to the file. "
          "A list is an axis of the sweep wherever a list of values is accepted; a value that is "
          "named twice counts once. Unknown and "
          "doubled keys, anchors, aliases and tags are "
          "errors. An error in a key names file, line, column, key and what is accepted; what only "
          "shows when a cluster is put together names the file and stands in the point's row.");
  describe_keys(scenario, "", out);
  out += "\n# Workload file\n\n" +
         paragraph(
             "`workload.model: ./mine.yaml` in a scenario names a file of this form. A GPT-like "
             "model needs three lines:") +
         "\n```yaml\n"
         "workload: my-gpt\n"
         "transformer: { layers: 24, hidden: 2048, vocabulary: 50257, sequence: 2048 }\n"
         "```\n";
  describe_keys(workload, "", out);
  return out;
}

std::string machine_reference(const Json& machine) {
  std::string out =
      "# Machine file\n\n`foreduce docs machine` writes this page from the description that the "
      "loader checks with.\n\n" +
      paragraph(
          "`cluster.instance: ./mine.yaml` in a scenario, and --instance ./mine.yaml, name a file "
          "of this form: one node, of which a cluster has several. With `like` it starts from "
          "another machine, and says what is otherwise; sections are joined key by key. A machine "
          "like one of EC2 that names its own `fabric`, or counts other GPUs, has no price unless "
          "it says one. `foreduce list instances` names the machines that ship; their files in "
          "topologies/ec2 and topologies/elsewhere are examples; `foreduce topology` shows what "
          "a file means, and `foreduce topology import` writes one from a node's own dump.") +
      "\n```yaml\n"
      "like: p5.48xlarge\n"
      "instance: our-h100\n"
      "nic: { count: 8, bandwidth: 400 Gbps, latency: 5 us, fabric: infiniband }\n"
      "pcie:\n"
      "  switches:\n"
      "    - { socket: 0, gpus: [0], nics: [0] }\n"
      "    # and so on, one for each GPU and its NIC\n"
      "```\n";
  describe_keys(machine, "", out);
  return out;
}

}  // namespace foreduce
