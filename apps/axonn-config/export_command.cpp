// The command export: a layout in the words of other programs, and back.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/json_depth.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/text.hpp>

#include "foreign_layout.hpp"
#include "planner_commands.hpp"

namespace {

constexpr const char* kWhere = "axonn_config.export";
using Json = nlohmann::ordered_json;

int64_t whole(const std::string& text, const std::string& what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && end == text.data() + text.size();
  AXONN_CHECK(read && value >= 1 && value <= (1 << 30), kWhere, what, " must be a whole number from 1, got '", text,
              "'");
  return value;
}

// Keys and values of one program's file.
using Words = std::map<std::string, std::string>;

int64_t number_of(const Words& words, const std::string& key, int64_t otherwise) {
  const auto found = words.find(key);
  return found == words.end() ? otherwise : whole(found->second, "'" + key + "'");
}

std::string word_of(const Words& words, const std::string& key, const std::string& otherwise) {
  const auto found = words.find(key);
  return found == words.end() ? otherwise : found->second;
}

// A degree of another kind of parallelism, which is no axis of a grid of ours.
void refuse_degree(const Words& words, const std::string& key) {
  const int64_t degree = number_of(words, key, 1);
  AXONN_CHECK(degree == 1, kWhere, "'", key, "' is ", degree, ": such a layout is no grid of ours; see --what-if");
}

axonn::ContextSplit context_of(const Words& words, const std::string& key, const std::string& how,
                               const std::string& passes, const std::string& gathers) {
  axonn::ContextSplit context = {.ranks = number_of(words, key, 1)};
  if (context.ranks == 1) return context;
  AXONN_CHECK(how == passes || how == gathers, kWhere, "keys and values go by '", how, "': give ", passes, " or ",
              gathers);
  context.gathers = how == gathers;
  return context;
}

// "--key value", "--key=value" and "--key"
Words words_of_arguments(const std::string& text) {
  std::istringstream in(text);
  Words words;
  std::string key, word;
  while (in >> word) {
    if (word == "\\") continue;
    const auto equals = word.find('=');
    if (word.starts_with("--") && equals != std::string::npos)
      words[word.substr(2, equals - 2)] = word.substr(equals + 1);
    else if (word.starts_with("--"))
      words[key = word.substr(2)] = "";
    else if (!key.empty())
      words[key] = word;
  }
  return words;
}

// "key = value # comment" by section: "parallelism.tensor_parallel_degree". No value of a layout
// has a # in it.
Words words_of_toml(const std::string& text) {
  std::istringstream in(text);
  Words words;
  std::string section;
  for (std::string line; std::getline(in, line);) {
    const std::string_view trimmed = axonn::trimmed(std::string_view(line).substr(0, line.find('#')));
    const auto equals = trimmed.find('=');
    if (trimmed.starts_with("[") && trimmed.ends_with("]"))
      section = std::string(trimmed.substr(1, trimmed.size() - 2)) + ".";
    else if (equals != std::string_view::npos) {
      std::string value(axonn::trimmed(trimmed.substr(equals + 1)));
      std::erase(value, '"');
      words[section + std::string(axonn::trimmed(trimmed.substr(0, equals)))] = value;
    }
  }
  return words;
}

void add_words(Words& words, const std::string& prefix, const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object())
      add_words(words, prefix + key + ".", value);
    else
      words[prefix + key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

bool runs_again(const ForeignLayout& layout) { return layout.checkpoint == axonn::Checkpointing::on; }

// The batch that a program takes: what its file gives, the rest follows. 0: not given.
struct GivenBatch {
  int64_t all = 0, micro = 0, passes = 0;
};

void set_batch(ForeignLayout& layout, const GivenBatch& given) {
  const int64_t ranks = std::max<int64_t>(int64_t{layout.grid.z} * layout.grid.data / layout.context.ranks, 1),
                passes = std::max<int64_t>(given.passes, 1);
  layout.micro_batch = given.micro > 0 ? given.micro : std::max<int64_t>(given.all / (ranks * passes), 1);
  layout.batch = given.all > 0 ? given.all : ranks * layout.micro_batch * passes;
  AXONN_CHECK(layout.batch % (ranks * layout.micro_batch) == 0, kWhere, "a batch of ", layout.batch,
              " sequences must divide by the ", ranks, " ranks that share it and by their micro-batch of ",
              layout.micro_batch, ": give another batch");
}

// Nothing or -1 (torchtitan) or auto (DeepSpeed): the program decides.
int64_t given_number(const Words& words, const std::string& key) {
  const std::string word = word_of(words, key, "auto");
  return word == "auto" || word == "-1" ? 0 : whole(word, "'" + key + "'");
}

void print_megatron(std::ostream& out, const ForeignLayout& layout) {
  const bool sharded = layout.grid.z > 1;
  out << "--tensor-model-parallel-size " << layout.grid.x << "\n--micro-batch-size " << layout.micro_batch
      << "\n--global-batch-size " << layout.batch << "\n--bf16\n";
  if (layout.context.ranks > 1)
    out << "--context-parallel-size " << layout.context.ranks << "\n--cp-comm-type "
        << (layout.context.gathers ? "all_gather" : "p2p") << "\n";
  if (sharded) out << "--use-torch-fsdp2\n--num-distributed-optimizer-instances " << layout.grid.data << "\n";
  if (runs_again(layout)) out << "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n";
}

ForeignLayout read_megatron(const Words& words, int64_t gpus) {
  ForeignLayout layout;
  for (const char* key : {"pipeline-model-parallel-size", "expert-model-parallel-size"}) refuse_degree(words, key);
  layout.context =
      context_of(words, "context-parallel-size", word_of(words, "cp-comm-type", "p2p"), "p2p", "all_gather");
  const int64_t x = number_of(words, "tensor-model-parallel-size", 1);
  AXONN_CHECK(gpus % x == 0, kWhere, gpus, " GPUs must divide by --tensor-model-parallel-size ", x);
  const bool sharded = words.contains("use-torch-fsdp2") || words.contains("use-megatron-fsdp");
  const int64_t replicas = sharded ? number_of(words, "num-distributed-optimizer-instances", 1) : gpus / x;
  AXONN_CHECK(gpus / x % replicas == 0, kWhere, gpus / x, " GPUs must divide by --num-distributed-optimizer-instances ",
              replicas);
  layout.grid = {
      .x = static_cast<int>(x), .z = static_cast<int>(gpus / x / replicas), .data = static_cast<int>(replicas)};
  set_batch(layout,
            {.all = given_number(words, "global-batch-size"), .micro = number_of(words, "micro-batch-size", 1)});
  const std::string again = word_of(words, "recompute-granularity", "");
  if (again == "full") layout.checkpoint = axonn::Checkpointing::on;
  if (again == "selective") layout.checkpoint = axonn::Checkpointing::selective;
  return layout;
}

// The ranks of a context share the weights of Z, as in our model.
void print_torchtitan(std::ostream& out, const ForeignLayout& layout) {
  AXONN_CHECK(layout.grid.z % layout.context.ranks == 0, kWhere,
              "torchtitan divides weights over the ranks of a "
              "context: grid ",
              layout.grid.to_string(), " needs a z that divides by ", layout.context.ranks);
  out << "[training]\nlocal_batch_size = " << layout.micro_batch << "\nglobal_batch_size = " << layout.batch
      << "\nmixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n\n[parallelism]\n"
         "data_parallel_replicate_degree = "
      << layout.grid.data << "\ndata_parallel_shard_degree = " << layout.grid.z / layout.context.ranks
      << "\ntensor_parallel_degree = " << layout.grid.x
      << "\npipeline_parallel_degree = 1\ncontext_parallel_degree = " << layout.context.ranks
      << "\ncontext_parallel_rotate_method = \"" << (layout.context.gathers ? "allgather" : "alltoall")
      << "\"\n\n[activation_checkpoint]\nmode = \"" << (runs_again(layout) ? "full" : "none") << "\"\n";
}

ForeignLayout read_torchtitan(const Words& words, int64_t gpus) {
  ForeignLayout layout;
  const auto degree = [&](const char* key) { return number_of(words, std::string("parallelism.") + key, 1); };
  for (const char* key : {"parallelism.pipeline_parallel_degree", "parallelism.expert_parallel_degree"})
    refuse_degree(words, key);
  layout.context =
      context_of(words, "parallelism.context_parallel_degree",
                 word_of(words, "parallelism.context_parallel_rotate_method", "allgather"), "alltoall", "allgather");
  const int64_t x = degree("tensor_parallel_degree"), data = degree("data_parallel_replicate_degree"),
                context = layout.context.ranks;
  AXONN_CHECK(gpus % (x * data) == 0 && gpus / x / data % context == 0, kWhere, gpus,
              " GPUs must divide by the degrees ", x, " x ", data, " x ", context);
  const bool rest = word_of(words, "parallelism.data_parallel_shard_degree", "-1") == "-1";
  const int64_t sharded = rest ? gpus / x / data : degree("data_parallel_shard_degree") * context;
  AXONN_CHECK(sharded <= gpus, kWhere, gpus, " GPUs must divide by data_parallel_shard_degree ", sharded / context);
  layout.grid = {.x = static_cast<int>(x), .z = static_cast<int>(sharded), .data = static_cast<int>(data)};
  set_batch(layout, {.all = given_number(words, "training.global_batch_size"),
                     .micro = number_of(words, "training.local_batch_size", 1)});
  const std::string again = word_of(words, "activation_checkpoint.mode", "none");
  AXONN_CHECK(again == "none" || again == "full", kWhere, "'activation_checkpoint.mode' is ", again,
              ", which the model does not know: give full or none");
  if (again == "full") layout.checkpoint = axonn::Checkpointing::on;
  return layout;
}

void print_deepspeed(std::ostream& out, const ForeignLayout& layout) {
  AXONN_CHECK(layout.context.ranks == 1, kWhere,
              "deepspeed passes no keys and values around ranks, its Ulysses divides heads: remove --what-if context");
  const int64_t ranks = int64_t{layout.grid.z} * layout.grid.data;
  Json zero = {{"stage", layout.grid.z > 1 ? 3 : layout.grid.data > 1 ? 1 : 0}};
  if (layout.grid.z > 1 && layout.grid.data > 1) zero["mics_shard_size"] = layout.grid.z;
  Json all = {{"train_batch_size", layout.batch},
              {"train_micro_batch_size_per_gpu", layout.micro_batch},
              {"gradient_accumulation_steps", layout.batch / ranks / layout.micro_batch},
              {"bf16", {{"enabled", true}}},
              {"zero_optimization", std::move(zero)},
              {"tensor_parallel", {{"autotp_size", layout.grid.x}}}};
  if (runs_again(layout)) all["activation_checkpointing"] = {{"partition_activations", false}};
  out << all.dump(2) << "\n";
}

ForeignLayout read_deepspeed(const Words& words, int64_t gpus) {
  ForeignLayout layout;
  refuse_degree(words, "sequence_parallel_size");
  const int64_t x = number_of(words, "tensor_parallel.autotp_size", 1);
  AXONN_CHECK(gpus % x == 0, kWhere, gpus, " GPUs must divide by autotp_size ", x);
  const bool sharded = word_of(words, "zero_optimization.stage", "0") == "3";
  const int64_t z = sharded ? number_of(words, "zero_optimization.mics_shard_size", gpus / x) : 1;
  AXONN_CHECK(gpus / x % z == 0, kWhere, gpus / x, " GPUs must divide by mics_shard_size ", z);
  layout.grid = {.x = static_cast<int>(x), .z = static_cast<int>(z), .data = static_cast<int>(gpus / x / z)};
  set_batch(layout, {.all = given_number(words, "train_batch_size"),
                     .micro = given_number(words, "train_micro_batch_size_per_gpu"),
                     .passes = given_number(words, "gradient_accumulation_steps")});
  if (words.contains("activation_checkpointing.partition_activations")) layout.checkpoint = axonn::Checkpointing::on;
  return layout;
}

// UserError if `explain` would refuse the layout.
void check_explained(const PlannerOptions& line, const axonn::GridShape& grid, const std::string& words) {
  try {
    const axonn::NetworkModel network = line.planned_network();
    (void)plan_grid(network, axonn::find_machine(line.machine), line.search(network), grid);
  } catch (const axonn::UserError& error) {
    throw axonn::UserError(kWhere, "the file describes " + words + "; explain refuses that: " + error.sentence());
  }
}

}  // namespace

void print_foreign(std::ostream& out, ForeignProgram program, const ForeignLayout& layout) {
  AXONN_CHECK(layout.grid.y == 1, kWhere, axonn::to_string(program), " has no axis y: grid ", layout.grid.to_string(),
              " divides weights over it; search with --fix y=1");
  switch (program) {
    case ForeignProgram::megatron:
      return print_megatron(out, layout);
    case ForeignProgram::torchtitan:
      return print_torchtitan(out, layout);
    case ForeignProgram::deepspeed:
      return print_deepspeed(out, layout);
  }
}

ForeignLayout read_foreign(const std::string& text, ForeignProgram program, int64_t gpus) {
  switch (program) {
    case ForeignProgram::megatron:
      return read_megatron(words_of_arguments(text), gpus);
    case ForeignProgram::torchtitan:
      return read_torchtitan(words_of_toml(text), gpus);
    case ForeignProgram::deepspeed: {
      const Json json = axonn::is_shallow_json(text) ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json();
      AXONN_CHECK(json.is_object(), kWhere, "the file is no JSON object: give one that DeepSpeed reads");
      Words words;
      add_words(words, "", json);
      return read_deepspeed(words, gpus);
    }
  }
  return {};
}

int run_export(const ExportFlags& flags, const PlannerOptions& line) {
  line.refuse_beyond_export();
  const auto network = line.planned_network();
  const auto options = line.search(network);
  const auto layout =
      plan_grid(network, axonn::find_machine(line.machine), options, axonn::parse_grid_shape(line.grid));
  print_foreign(std::cout, axonn::parse_name<ForeignProgram>(flags.program, "--to"),
                {.grid = layout.grid,
                 .batch = options.batch_tokens / network.tokens_per_sample,
                 .micro_batch = layout.micro_batch,
                 .checkpoint = layout.checkpoint() ? axonn::Checkpointing::on : axonn::Checkpointing::off,
                 .context = options.context});
  return 0;
}

int run_import(const ExportFlags& flags, PlannerOptions& line) {
  AXONN_CHECK(flags.gpus >= 1 && flags.gpus <= (1 << 20), kWhere, "--gpus must be from 1 to ", 1 << 20, ", got ",
              flags.gpus);
  std::ifstream in(flags.file, std::ios::binary);
  AXONN_CHECK(in, kWhere, "cannot read ", flags.file, ": ", axonn::why_not_read(flags.file));
  const auto layout = read_foreign(std::string(std::istreambuf_iterator<char>(in), {}),
                                   axonn::parse_name<ForeignProgram>(flags.program, "--from"), flags.gpus);
  check_shape(layout.grid, flags.gpus);
  const int on = layout.grid.z > 1 ? layout.grid.z : layout.grid.data;
  AXONN_CHECK(on % layout.context.ranks == 0, kWhere, "a context of ", layout.context.ranks,
              " ranks must divide the ranks that share or replicate the weights, got ", on);
  line.batch = layout.batch;
  line.micro_batch = layout.micro_batch;
  line.checkpointing = layout.checkpoint;
  std::string words = axonn::detail::concatenate(layout.grid.to_string(), " --batch ", layout.batch, " --micro-batch ",
                                                 layout.micro_batch, " --checkpoint ", to_string(layout.checkpoint));
  if (layout.context.ranks > 1) {
    line.what_ifs =
        axonn::detail::concatenate("context=", layout.context.ranks, layout.context.gathers ? ",gather-keys" : "");
    words += " --what-if " + line.what_ifs;
  }
  const bool whole = line.network.given();
  if (whole) check_explained(line, layout.grid, words);
  std::cout << (whole ? "axonn-config explain " : "") << words << line.repeated() << "\n";
  return 0;
}
