// What of a model is gathered and scattered together when its state is sharded: FSDP's wrapping.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/workload.hpp"

namespace foreduce {

/// How tensors are put together to units.
struct UnitRule {
  enum class By : std::uint8_t {
    block,   ///< a transformer block each, and what belongs to none in one (FSDP's root)
    tensor,  ///< each tensor alone
    size     ///< in order of registration until a unit has `size`
  };
  By by = By::block;
  Bytes size = {};  ///< of parameters, in the type in which they travel

  bool operator==(const UnitRule&) const = default;
};

/// Tensors that travel together.
struct ModelUnit {
  std::string name;  ///< "model.layers.3", a tensor's name, or empty: what belongs to no block
  std::size_t elements = 0;
  double share = 0;      ///< of the model's arithmetic, 0 … 1; attention scores count for blocks
  bool root = false;     ///< what belongs to no block: used at the beginning and at the end of
                         ///< forward, so that it stays gathered between
  double trainable = 1;  ///< see Workload
  std::size_t experts = 0;        ///< of its elements, those of experts
  int blocks = 1;                 ///< that end in it
  int expert_blocks = 0;          ///< of these, those with experts
  std::size_t before_blocks = 0;  ///< of a root's elements, those used before the first block: of a
                                  ///< language model the embeddings
  std::size_t tied = 0;           ///< of these, those that the output layer uses too
};

/// The block that a tensor belongs to by its name: all up to the first part that is a number or
/// ends in one behind "_" ("model.layers.3.mlp.up_proj.weight": "model.layers.3"); empty for none.
std::string block_of(const std::string& tensor);

/// The units of a workload in order of registration, a root first. `element_size`: bytes of a
/// parameter as it travels, for rules by size. A workload whose tensors name no block is one unit,
/// the root.
std::vector<ModelUnit> units_of(const Workload& workload, const UnitRule& rule,
                                std::size_t element_size);

/// How many blocks a workload has: those that its tensors name, or `blocks`; 0: it names none.
int blocks_of(const Workload& workload);

/// The units of each stage of a pipeline, in order. What stands before the blocks (embeddings) is
/// the first stage's, and what stands behind them the last one's, with a copy of an embedding that
/// the output layer shares, as Megatron-LM has it; all of the root's arithmetic is the last one's,
/// whose output layer is most of it. Where blocks do not divide, the last stage has one fewer, then
/// the first, then the others from either end, as if the output layer and the embedding were blocks
/// (Megatron-LM, account_for_loss_in_pipeline_split). Throws InputError for more stages than
/// blocks.
std::vector<std::vector<ModelUnit>> stages_of(const std::vector<ModelUnit>& units, int stages);

}  // namespace foreduce
