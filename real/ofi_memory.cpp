// Inside the libfabric module: registration of memory, and the memory that segments arrive in or
// are copied to.
#include <algorithm>

#include "real/ofi_rail.hpp"

namespace foreduce::ofi {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSlotBlock = 8;     // slots in one allocation
constexpr std::size_t kBounceBlock = 16;  // bounce buffers in one allocation
constexpr std::size_t kOutgoingBlock = 128;
/// Room for the alignment offset; the next buffer begins on a page.
constexpr std::size_t kBounceBytes = kDeviceSegmentBytes + kPage;

}  // namespace

Owned<fid_mr> Rail::register_host(const void* base, std::size_t bytes) {
  fid_mr* region = nullptr;
  check(
      fi_mr_reg(domain_.get(), base, bytes, FI_SEND | FI_RECV, 0, next_key_++, 0, &region, nullptr),
      "registering memory");
  return Owned<fid_mr>(region);
}

Owned<fid_mr> Rail::register_device(std::byte* base, std::size_t bytes) {
  const iovec span{base, bytes};
  fi_mr_attr attributes{};
  attributes.mr_iov = &span;
  attributes.iov_count = 1;
  // A receiver reads long messages by itself (EFA's long read).
  attributes.access = FI_SEND | FI_RECV | (devices_ == DeviceKind::cuda ? FI_REMOTE_READ : 0);
  attributes.requested_key = next_key_++;
  if (devices_ == DeviceKind::cuda) {
    attributes.iface = FI_HMEM_CUDA;
    attributes.device.cuda = device_;
  }
  fid_mr* region = nullptr;
  return Owned<fid_mr>(fi_mr_regattr(domain_.get(), &attributes, 0, &region) == 0 ? region
                                                                                  : nullptr);
}

/// For the port's own memory, which stays registered. Null if the provider does not need that.
fid_mr* Rail::register_own(const void* base, std::size_t bytes) {
  return registers_ ? regions_.emplace_back(register_host(base, bytes)).get() : nullptr;
}

bool Rail::has_attached(std::byte* base, std::size_t bytes) const {
  const auto known = attached_.find(base);
  return known != attached_.end() && bytes <= known->second.bytes;
}

void Rail::attach(std::byte* base, std::size_t bytes, Owned<fid_mr> region, MemoryKind kind) {
  Region& known = attached_[base];
  ++known.uses;
  if (!region) return;
  if (known.region) regions_.push_back(std::move(known.region));
  known.region = std::move(region);
  known.bytes = bytes;
  known.kind = kind;
}

void Rail::detach(std::byte* base) {
  if (const auto known = attached_.find(base);
      known != attached_.end() && --known->second.uses == 0)
    attached_.erase(known);
}

/// The attached memory that these bytes are in; null if there is none.
const Rail::Region* Rail::region_of(const std::byte* data, std::size_t bytes) const {
  const auto next = attached_.upper_bound(data);
  if (next == attached_.begin()) return nullptr;
  const auto& [base, known] = *std::prev(next);
  return data + bytes <= base + known.bytes ? &known : nullptr;
}

bool Rail::sends_from_device(const std::byte* data, std::size_t bytes) const {
  const Region* region = region_of(data, bytes);
  return region && region->kind == MemoryKind::device;
}

bool Rail::use_device(int device, AllocateOnDevice allocate) {
  device_ = device;
  allocate_ = std::move(allocate);
  return add_bounce_buffers_on_device();
}

void Rail::forget_device() {
  if (!bounce_memory_on_device_.empty()) regions_.pop_back();
  bounce_memory_on_device_.clear();
  free_bounce_buffers_.clear();
  bounce_buffers_.clear();
  device_ = -1;
}

void Rail::on_memory(const std::function<void(std::byte*, std::size_t)>& use) {
  for (const auto& block : slot_memory_) use(block.get(), slot_block_bytes());
  for (const auto& block : bounce_memory_) use(block.get(), kBounceBlock * kBounceBytes);
  on_memory_ = use;
}

Rail::HostBlock Rail::new_block(std::size_t bytes) {
  HostBlock block(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  if (!block) throw std::bad_alloc();
  return block;
}

std::size_t Rail::slot_block_bytes() const {
  return (kSlotBlock * slot_bytes() + kPage - 1) / kPage * kPage;
}

Slot* Rail::new_slot() {
  if (free_slots_.empty()) {
    std::byte* block = slot_memory_.emplace_back(new_block(slot_block_bytes())).get();
    fid_mr* region = register_own(block, slot_block_bytes());
    if (on_memory_) on_memory_(block, slot_block_bytes());
    for (std::size_t i = 0; i < kSlotBlock; ++i) {
      Slot& slot = slots_.emplace_back();
      slot.memory = block + i * slot_bytes();
      slot.region = region;
      free_slots_.push_back(&slot);
    }
  }
  Slot* slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

OutgoingSegment* Rail::new_outgoing() {
  if (free_outgoing_.empty()) {
    auto& block = outgoing_blocks_.emplace_back(kOutgoingBlock);
    fid_mr* region = register_own(block.data(), block.size() * sizeof(OutgoingSegment));
    for (OutgoingSegment& segment : block) {
      segment.kind = Operation::Kind::send;
      segment.own_region = region;
      free_outgoing_.push_back(&segment);
    }
  }
  OutgoingSegment* segment = free_outgoing_.back();
  free_outgoing_.pop_back();
  return segment;
}

BounceBuffer* Rail::new_bounce_buffer() {
  if (free_bounce_buffers_.empty() && !(device_ >= 0 && add_bounce_buffers_on_device()))
    add_bounce_buffers_on_host();
  BounceBuffer* buffer = free_bounce_buffers_.back();
  free_bounce_buffers_.pop_back();
  return buffer;
}

void Rail::add_bounce_buffers(std::byte* block, fid_mr* region, int device) {
  for (std::size_t i = 0; i < kBounceBlock; ++i) {
    BounceBuffer& buffer = bounce_buffers_.emplace_back();
    buffer.memory = block + i * kBounceBytes;
    buffer.region = region;
    buffer.device = device;
    free_bounce_buffers_.push_back(&buffer);
  }
}

/// Returns false if the device's memory is full, or libfabric cannot reach it.
bool Rail::add_bounce_buffers_on_device() {
  std::shared_ptr<std::byte> block;
  try {
    block = allocate_(kBounceBlock * kBounceBytes);
  } catch (const TransportError&) {
    return false;
  }
  auto region = register_device(block.get(), kBounceBlock * kBounceBytes);
  if (!region) return false;
  add_bounce_buffers(block.get(), region.get(), device_);
  bounce_memory_on_device_.push_back(std::move(block));
  regions_.push_back(std::move(region));
  return true;
}

void Rail::add_bounce_buffers_on_host() {
  constexpr std::size_t bytes = kBounceBlock * kBounceBytes;
  std::byte* block = bounce_memory_.emplace_back(new_block(bytes)).get();
  if (on_memory_) on_memory_(block, bytes);
  add_bounce_buffers(block, register_own(block, bytes), -1);
}

}  // namespace foreduce::ofi
