#include "scale_checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <ATen/ops/zeros.h>
#include <unistd.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "checkpoint/checkpoint_save.hpp"
#include "checkpoint/stand_ins.hpp"
#include "echo_rank.hpp"
#include "scale_reading.hpp"
#include "scale_tensors.hpp"
#include "support/forked.hpp"

namespace axonn::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRanksOfFile = 8;
constexpr const char* kNetwork = "gpt80b";

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("axonn-scale-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Counter {
 public:
  explicit Counter(const GridShape& shape)
      : grid_(shape),
        planned_(kNetwork, shape),
        tensors_(planned_.of(0)),
        all_(grid_, tensors_, kRanksOfFile),
        text_(all_.manifest.to_json()),
        step_(folder_.path() / "step-000001") {
    write_files(step_);
  }

  CheckpointCounts count() {
    return {.tensors = tensors_.size(),
            .files = all_.manifest.files.size(),
            .parts = all_.manifest.parts.size(),
            .manifest_bytes = std::ssize(text_),
            .rank_0 = costs_of(0),
            .last = costs_of(grid_.ranks() - 1)};
  }

 private:
  void write_files(const fs::path& step) const {
    fs::create_directories(step);
    std::ofstream(step / Manifest::kFileName) << text_;
    for (const auto& file : all_.manifest.files) {
      std::ofstream(step / file.name).flush();
      fs::resize_file(step / file.name, static_cast<uintmax_t>(file.bytes));
    }
  }

  CheckpointCosts costs_of(int rank) {
    CheckpointCosts costs;
    costs.save = save_messages(rank);
    costs.save_calls = rank == 0 ? calls_of_rank_0() : calls_of_last(rank);
    count_resume(rank, costs);
    return costs;
  }

  int64_t calls(const std::function<bool()>& work) const {
    return test::calls_on({folder_.path().string(), "state-", Manifest::kFileName}, work).value_or(-1);
  }

  // All of a save but the writing, which sends nothing.
  Sent save_messages(int rank) const {
    EchoRank one(grid_, rank);
    const fs::path run = folder_.path() / "run";
    const CheckpointWriter writer(grid_, one.everyone(), {.directory = run, .file = 0});
    const Sent before = one.sent();
    const auto save = writer.begin({.run = "scale", .step = 2}, planned_.of(rank));
    all_ranks_or_none(one.everyone(), [] {});
    save->exchange();
    all_ranks_or_none(one.everyone(), [] {});
    const Sent sent = one.sent() - before;
    fs::remove_all(run);
    return sent;
  }

  // A save of some numbers per rank, in the folder that rank 0 has made.
  bool save_small(int rank, const fs::path& run) const {
    EchoRank one(grid_, rank);
    const GridShape& shape = grid_.shape();
    CheckpointTensor tensor{.name = "weights/w",
                            .spec = {{Dim::split(kRangeAlignment * shape.x * shape.z, Axis::x),
                                      Dim::split(int64_t{shape.data} * shape.y, Axis::y)},
                                     true},
                            .shard = at::zeros({kRangeAlignment}),
                            .cut = CheckpointCut{.axes = {Axis::data}, .block = kRangeAlignment}};
    const CheckpointWriter writer(grid_, one.everyone(), {.directory = run, .file = 0});
    const auto save = writer.begin({.run = "stand-in", .step = 2}, {tensor});
    save->write();
    save->exchange();
    return true;
  }

  int64_t calls_of_last(int rank) const {
    const fs::path run = folder_.path() / "small";
    fs::create_directories(run / "step-000002.partial");
    return calls([&] { return save_small(rank, run); });
  }

  // Rank 0 by itself saves, and removes an older checkpoint of all; it looks at all files.
  int64_t calls_of_rank_0() const {
    const fs::path run = folder_.path() / "old";
    write_files(run / "step-000001");
    const int64_t save = calls([&] {
      SelfCommunicator alone(Group{.axes = AxisSet::all(), .ranks = {0}}, c10::kCPU);
      const CheckpointTensor tensor{.name = "weights/w", .spec = {{Dim::whole(1)}, false}, .shard = at::zeros({1})};
      CheckpointWriter(Grid({}), alone, {.directory = run, .keep = 1}).save({.run = "stand-in", .step = 2}, {{tensor}});
      return fs::exists(run / "step-000002") && !fs::exists(run / "step-000001");
    });
    const int64_t look = calls([&] {
      check_written(step_, all_.manifest);
      return true;
    });
    fs::remove_all(run);
    return save < 0 || look < 0 ? -1 : save + look;
  }

  void count_resume(int rank, CheckpointCosts& costs) const {
    const std::string run = step_.string();
    const int64_t begins = calls([&] {
      if (rank == 0) {
        EchoRank one(grid_, rank);
        const CheckpointReader reader(one.everyone(), run);
        return true;
      }
      test::OneOfMany everyone(grid_.group(rank, AxisSet::all()));
      everyone.will_hear(run + '\n');  // the name that all give
      everyone.will_hear(run);
      everyone.will_hear(text_);
      const CheckpointReader reader(everyone, run);
      return true;
    });
    const auto plan = test::costs_of([&] {
      const Manifest manifest = Manifest::from_json(text_, step_);
      const Reading reading(step_, manifest, grid_.coordinate(rank), planned_.of(rank));
      return manifest.parts.size() == all_.manifest.parts.size();
    });
    costs.memory = plan.memory;
    costs.cpu_seconds = plan.cpu_seconds;
    const Reading reading(step_, all_.manifest, grid_.coordinate(rank), planned_.of(rank));
    EchoRank one(grid_, rank);
    const Sent before = one.sent();
    send_text(one.everyone(), run + '\n');
    for (int i = 0; i < 2; ++i) all_ranks_or_none(one.everyone(), [] {});
    for (const std::string& text : {run, text_}) send_text(one.everyone(), text);
    reading.agree(one);
    costs.resume = one.sent() - before;
    reading.send(one);
    costs.tensors = one.sent() - before - costs.resume;
    const auto files = reading.files(one);
    for (const auto& [file, bytes] : files) costs.read_bytes += bytes;
    costs.opens_to_load = std::ssize(files);
    costs.resume_calls = begins < 0 ? -1 : begins + costs.opens_to_load;
  }

  // As broadcast_text(), on rank 0 and on others.
  static void send_text(Communicator& everyone, const std::string& text) {
    everyone.broadcast(at::zeros({1}, at::kLong), 0).wait();
    everyone.broadcast(at::zeros({std::ssize(text)}, at::kByte), 0).wait();
  }

  Folder folder_;
  Grid grid_;
  PlannedTensors planned_;
  std::vector<CheckpointTensor> tensors_;
  test::StandIn all_;
  std::string text_;
  fs::path step_;
};

}  // namespace

CheckpointCounts count_checkpoint(const GridShape& shape) { return Counter(shape).count(); }

}  // namespace axonn::bench
