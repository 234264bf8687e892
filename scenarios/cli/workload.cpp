// `foreduce workload`: writes a workload file from what a model or a run of it says of itself.
#include <fmt/format.h>

#include "models/model_config.hpp"
#include "models/units.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/trace_report.hpp"
#include "scenarios/report/written_files.hpp"

namespace foreduce {
namespace {

struct ConfigArguments {
  std::string config, parameters, output;
  ModelSize size;
  DescriptionChoices choices;
};

DescribedModel described(const ConfigArguments& a) {
  if (a.config.empty() == a.parameters.empty())
    throw input_error("give a config.json, or --parameters with --layers and --hidden",
                      "foreduce workload from-config config.json");
  if (!a.config.empty()) {
    if (a.size.layers > 0 || a.size.hidden > 0)
      throw input_error("--layers and --hidden are for a model without a config.json");
    return workload_from_config(a.config, a.choices);
  }
  if (a.size.layers == 0 || a.size.hidden == 0)
    throw input_error("--parameters needs --layers and --hidden");
  ModelSize size = a.size;
  std::string why;
  if (!parse_quantity(a.parameters, UnitsOf<Count>::table, UnitsOf<Count>::kind,
                      size.parameters.value, why))
    throw input_error("--parameters: " + why);
  if (size.parameters.value <= 0)
    throw input_error(fmt::format("--parameters: '{}' must be more than zero", a.parameters));
  return workload_from_size(size, a.choices);
}

/// What a config does not tell, said where a reader of the file looks.
std::vector<std::string> remarks_on(const DescribedModel& model, const std::string& source) {
  std::vector<std::string> remarks = {fmt::format(
      "{}: {}, {} parameters.", source, model.architecture, to_text(*model.workload.parameters))};
  remarks.insert(remarks.end(), model.notes.begin(), model.notes.end());
  remarks.emplace_back(
      "A description tells neither the batch nor the speed. The batch stands in a scenario "
      "(batch_per_gpu). The speed is assumed under estimate, as the workloads that ship have it, "
      "until a rate is put under measured or samples_per_s into the scenario.");
  return remarks;
}

int write_from_config(const ConfigArguments& a) {
  const DescribedModel model = described(a);
  const Workload& w = model.workload;
  const std::string source = a.config.empty() ? "foreduce workload from-config --parameters"
                                              : "foreduce workload from-config, of a config.json";
  const std::string file = workload_file(w, remarks_on(model, source));
  if (a.output.empty()) {
    write_output("", file, a.config);
    return 0;
  }
  // Made before the file is: what fails behind it would leave a file that a status of 2 belies.
  const auto units = units_of(w, {}, 2);
  const std::string summary = fmt::format(
      "{}: {:.0f} parameters in {} tensors and {} units, {} a sample of {}\nin a scenario: "
      "workload: {{ model: ./{}, batch_per_gpu: 1 }}\n",
      a.output, w.parameters->value, w.tensors.size(), units.size(),
      fmt::format("{:.4g} TFLOP", w.variants.at(0).train_gflop / 1e3), w.variants.at(0).sample,
      std::filesystem::path(a.output).filename().string());
  write_output(a.output, file, a.config);
  write_output("", summary);
  return 0;
}

struct TraceArguments {
  std::string trace, workload;
  TraceChoices choices;
  OutputOptions output;
};

int write_from_trace(const TraceArguments& a) {
  const TrainingTrace trace = load_trace(a.trace);
  a.output.write(trace_report(trace), a.trace);
  if (a.workload.empty()) return 0;
  TraceChoices choices = a.choices;
  if (choices.name.empty()) choices.name = std::filesystem::path(a.workload).stem().string();
  const std::vector<std::string> remarks = {
      "foreduce workload from-trace: a tensor is what one collective of the traced step reduces, "
      "with the time from the collective before (or from backward's beginning) until it started.",
      "The trace does not tell the model's arithmetic. train_gflop is what estimate's share of the "
      "GPU's peak does in the traced time. It has no effect where the rate under measured holds.",
      fmt::format("A micro-batch was taken for {} samples (--batch). The rate includes pauses "
                  "between kernels, and what the profiler costs.",
                  choices.batch)};
  write_output(a.workload, workload_file(workload_from_trace(trace, choices), remarks), a.trace);
  return 0;
}

void add_from_trace(CLI::App& workload, Action& action) {
  auto* command = workload.add_subcommand(
      "from-trace",
      "Read a PyTorch profiler's trace of one rank: forward and backward, collectives with their "
      "bytes and order, measured overlap; and write as much of a workload file as it tells.");
  const auto a = std::make_shared<TraceArguments>();
  command->add_option("trace", a->trace, "The JSON of torch.profiler, or packed: .json.gz.")
      ->required();
  command->add_option("--workload", a->workload, "Write a workload file.")
      ->check(ends_in({".yaml", ".yml"}));
  command->add_option("--batch", a->choices.batch, "Samples of a micro-batch in the trace.")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--name", a->choices.name, "Name of the workload. Default: the file's.");
  a->output.add_to(*command);
  add_examples(*command, {"foreduce workload from-trace rank0.json.gz",
                          "foreduce workload from-trace rank0.json.gz --workload mine.yaml --batch "
                          "32"});
  command->callback([a, &action] { action = [a] { return write_from_trace(*a); }; });
}

void add_from_config(CLI::App& workload, Action& action) {
  auto* command = workload.add_subcommand(
      "from-config",
      "Write a workload file from a model's config.json (Hugging Face: Llama, Mistral, Qwen, "
      "Gemma, Phi, OLMo, Command R, StableLM, Granite, SmolLM3, StarCoder, GPT-2, GPT-J, GPT-NeoX, "
      "OPT, BLOOM, Falcon, MPT; mixtures of experts such as Mixtral, DeepSeek-V3, gpt-oss and "
      "DBRX; BERT, RoBERTa, ELECTRA, DeBERTa, T5, Whisper, ViT, DINOv2, CLIP), or from its size.");
  const auto a = std::make_shared<ConfigArguments>();
  command->add_option("config", a->config, "config.json of the model.");
  add_output_option(*command, a->output)->check(ends_in({".yaml", ".yml"}));
  command->add_option(
      "--name", a->choices.name,
      "Name of the workload. Default: the model's own, else the file's; of config.json its "
      "folder's.");
  command
      ->add_option("--sequence", a->choices.sequence,
                   "Tokens of a sample. Default: the model's context, at most 8192.")
      ->check(CLI::Range(1, 10'000'000));
  command->add_option("--parameters", a->parameters,
                      "Without a file: the number of parameters, e.g. 13B.");
  command->add_option("--layers", a->size.layers, "Without a file: transformer blocks.")
      ->check(CLI::Range(1, 1000));
  command->add_option("--hidden", a->size.hidden, "Without a file: width of the model.")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--vocabulary", a->size.vocabulary, "Without a file: size of the vocabulary.")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  add_examples(*command,
               {"foreduce workload from-config config.json -o mine.yaml",
                "foreduce workload from-config --parameters 13B --layers 40 --hidden 5120"});
  command->callback([a, &action] { action = [a] { return write_from_config(*a); }; });
}

}  // namespace

void add_workload(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "workload", "Write a workload file from a model's description or from a trace.");
  command->require_subcommand(1);
  add_examples(*command, {"foreduce workload from-config config.json -o model.yaml"});
  add_from_config(*command, action);
  add_from_trace(*command, action);
}

}  // namespace foreduce
