#include "models/units.hpp"

#include <set>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/tensors.hpp"

namespace foreduce {
namespace {

bool numbers_a_block(const std::string& part) {
  const auto digits =
      std::find_if(part.rbegin(), part.rend(), [](char c) { return c < '0' || c > '9'; });
  return digits != part.rbegin() && (digits == part.rend() || *digits == '_');
}

/// Gives each unit its share of the arithmetic: its tensors' MACs, and of blocks besides the scores
/// of attention, which are what a sample takes beyond all tensors' MACs. Where MACs are unknown,
/// parameters stand for them.
void share_arithmetic(const Workload& workload, const std::vector<double>& macs,
                      std::vector<ModelUnit>& units) {
  double tensors = 0, of_blocks = 0, all = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    tensors += macs[i];
    if (!units[i].root) of_blocks += macs[i];
  }
  const double sample =
      workload.variants.empty() ? 0 : workload.variants[0].train_gflop * 1e9 / kFlopPerMac;
  const double scores = of_blocks > 0 ? std::max(0.0, sample - tensors) : 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].share = tensors <= 0    ? static_cast<double>(units[i].elements)
                     : units[i].root ? macs[i]
                                     : macs[i] * (1 + (of_blocks > 0 ? scores / of_blocks : 0));
    all += units[i].share;
  }
  for (ModelUnit& u : units) u.share = all > 0 ? u.share / all : 0;
}

}  // namespace

std::string block_of(const std::string& tensor) {
  for (std::size_t begin = 0; begin < tensor.size();) {
    const std::size_t end = std::min(tensor.find('.', begin), tensor.size());
    if (end < tensor.size() || begin > 0)
      if (numbers_a_block(tensor.substr(begin, end - begin))) return tensor.substr(0, end);
    begin = end + 1;
  }
  return "";
}

std::vector<ModelUnit> units_of(const Workload& workload, const UnitRule& rule,
                                std::size_t element_size) {
  std::vector<ModelUnit> units;
  std::vector<double> macs;
  const auto open = [&](const std::string& name, bool root) {
    units.push_back({name, 0, 0, root, workload.trainable, 0, 0, 0});
    macs.push_back(0);
  };
  // The block that the last tensor is of, the unit that it has come to, and whether it has experts.
  std::string block_of_last;
  std::size_t end = 0;
  bool has_experts = false;
  const auto close = [&] {
    if (block_of_last.empty()) return;
    ++units[end].blocks;
    if (std::exchange(has_experts, false)) ++units[end].expert_blocks;
  };
  const auto put = [&](std::size_t unit, const Tensor& t) {
    units[unit].elements += t.elements;
    macs[unit] += t.macs;
    if (const std::string block = block_of(t.name); block != block_of_last) {
      close();
      block_of_last = block;
    }
    end = unit;
    if (!is_of_experts(t, workload)) return;
    units[unit].experts += t.elements;
    has_experts = true;
  };
  if (rule.by == UnitRule::By::block) open("", true);
  for (const Tensor& t : workload.tensors) {
    if (rule.by == UnitRule::By::block) {
      const std::string block = block_of(t.name);
      if (block.empty()) {
        if (units.size() == 1) {
          units[0].before_blocks += t.elements;
          if (is_tied_output(t)) units[0].tied += t.elements;
        }
        put(0, t);
        continue;
      }
      if (units.back().name != block) open(block, false);
    } else if (units.empty() || rule.by == UnitRule::By::tensor ||
               static_cast<double>(units.back().elements * element_size) >= rule.size.value) {
      open(t.name, false);
    }
    put(units.size() - 1, t);
  }
  close();
  if (units.front().elements == 0) {
    units.erase(units.begin());
    macs.erase(macs.begin());
  }
  share_arithmetic(workload, macs, units);
  return units;
}

int blocks_of(const Workload& workload) {
  if (workload.blocks > 0) return workload.blocks;
  std::set<std::string> names;
  for (const Tensor& t : workload.tensors)
    if (std::string block = block_of(t.name); !block.empty()) names.insert(std::move(block));
  return static_cast<int>(names.size());
}

std::vector<std::vector<ModelUnit>> stages_of(const std::vector<ModelUnit>& units, int stages) {
  const auto count = static_cast<std::size_t>(stages);
  std::vector<ModelUnit> blocks, roots;
  for (const ModelUnit& u : units) (u.root ? roots : blocks).push_back(u);
  if (count == 1) return {units};
  if (blocks.size() < count)
    throw input_error(
        fmt::format("pipeline: {} units cannot be divided into {} stages", blocks.size(), stages));
  std::vector<std::vector<ModelUnit>> all(count);
  all.back() = roots;
  if (roots.size() == 1 && roots[0].before_blocks > 0) {
    ModelUnit first = roots[0];
    first.elements = first.before_blocks;
    first.share = 0;
    all.front() = {first};
    all.back()[0].elements += first.tied;
    all.back()[0].elements -= first.before_blocks;
    if (all.back()[0].elements == 0) all.back().clear();
  }
  std::vector<std::size_t> sizes(count,
                                 blocks.size() / count + (blocks.size() % count > 0 ? 1 : 0));
  const std::size_t fewer = blocks.size() % count > 0 ? count - blocks.size() % count : 0;
  for (std::size_t i = 0; i < fewer; ++i) --sizes[i % 2 == 0 ? count - 1 - i / 2 : i / 2];
  std::size_t at = 0;
  for (std::size_t s = 0; s < count; ++s)
    for (std::size_t i = 0; i < sizes[s]; ++i) all[s].push_back(blocks[at++]);
  return all;
}

}  // namespace foreduce
