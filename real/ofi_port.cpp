#include "real/ofi_port.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "real/keep_signals.hpp"

namespace foreduce {
namespace {

constexpr std::uint64_t kTag = 0xF07ED0CE;
/// Largest piece that comes from a device: there is nothing to hide a host's copy behind, and every piece costs two messages.
constexpr std::size_t kApartBytes = 1024 * 1024;

/// The tag of a message that is nothing but bytes from a device: whose, and which.
std::uint64_t apart_tag(const PieceHead& head) { return std::uint64_t{1} << 63 | std::uint64_t{head.from} << 32 | head.apart; }

struct Close {
  template <class Fid>
  void operator()(Fid* fid) const {
    fi_close(&fid->fid);
  }
};
template <class Fid>
using Owned = std::unique_ptr<Fid, Close>;
struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

[[noreturn]] void fail(const std::string& what, long code) {
  throw TransportError(fmt::format("libfabric: {}: {}", what, fi_strerror(static_cast<int>(std::abs(code)))));
}
void check(long code, const std::string& what) {
  if (code != 0) fail(what, code);
}

/// Every reliable datagram endpoint that the provider offers here.
Info query(const std::string& provider, std::size_t piece_bytes, bool devices = false) {
  const KeepSignals keep;
  // rxm would ask the receiver before it sends anything over 16 KiB, a round trip that queues behind bulk data of the other
  // direction. Sixteen receives are posted for our pieces, so they may come unasked; what finds none waits in the provider.
  ::setenv("FI_OFI_RXM_EAGER_LIMIT", std::to_string(piece_bytes + 4096).c_str(), 0);
  const Info hints(fi_allocinfo());
  hints->caps = FI_TAGGED | (devices ? FI_HMEM : 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | (devices ? FI_MR_HMEM : 0);
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->op_flags = FI_COMPLETION;
  if (!provider.empty()) hints->fabric_attr->prov_name = ::strdup(provider.c_str());
  fi_info* found = nullptr;
  if (fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, hints.get(), &found) != 0) return nullptr;
  return Info(found);
}

std::string address_of(const fi_info& info) {
  char text[64] = "";
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addr)
    ::inet_ntop(AF_INET, &static_cast<sockaddr_in*>(info.src_addr)->sin_addr, text, sizeof text);
  return text;
}

/// One network interface a rail, the one with `address` first; interfaces repeat if there are too few.
std::vector<fi_info*> choose(fi_info* all, const OfiOptions& options) {
  std::vector<fi_info*> chosen;
  std::set<std::string> domains;
  const auto take = [&](fi_info* info) {
    if (domains.insert(info->domain_attr->name ? info->domain_attr->name : "").second) chosen.push_back(info);
  };
  const bool loopback = options.address.starts_with("127.");
  for (fi_info* info = all; info; info = info->next)
    if (!options.address.empty() && address_of(*info) == options.address) take(info);
  for (fi_info* info = all; info; info = info->next) {
    const bool other_family = info->addr_format == FI_SOCKADDR_IN6 || info->addr_format == FI_SOCKADDR_IB;
    if (!other_family && (address_of(*info).empty() || address_of(*info).starts_with("127.") == loopback)) take(info);
  }
  if (chosen.empty()) return chosen;
  const std::size_t distinct = chosen.size();
  // Where interfaces have no IP address (EFA), each of the host's ranks begins at another.
  if (address_of(*chosen[0]).empty())
    std::rotate(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(options.turn) % distinct),
                chosen.end());
  for (std::size_t i = distinct; i < static_cast<std::size_t>(options.rails); ++i) chosen.push_back(chosen[i % distinct]);
  chosen.resize(static_cast<std::size_t>(options.rails));
  return chosen;
}

std::string hex(const std::vector<std::uint8_t>& bytes) {
  std::string text;
  for (const std::uint8_t b : bytes) text += fmt::format("{:02x}", b);
  return text;
}
std::vector<std::uint8_t> unhex(std::string_view text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// An operation under way; libfabric hands it back when it is done, so it starts with the space that providers scribble on.
struct Operation {
  fi_context2 scratch{};
  enum class Kind { receive, landing, send } kind = Kind::receive;
};
/// Memory for one arriving piece with its head.
struct Slot : Operation {
  std::byte* memory = nullptr;
  fid_mr* region = nullptr;
};
/// Memory for what comes from a device, without its head; on this rank's device, if it has one and libfabric reaches that.
struct Landing : Operation {
  Landing() { kind = Kind::landing; }
  PieceHead head;
  std::byte* memory = nullptr;
  fid_mr* region = nullptr;
  int device = -1;
};
/// A message being sent.
struct Message {
  Event send{};
  std::size_t pieces_left = 0;
};
/// One piece of it; of what is on a device, its head or its bytes.
struct Outgoing : Operation {
  PieceHead head;
  bool bare = false;  // without the head
  const std::byte* data = nullptr;
  fid_mr* region = nullptr;      // of data
  Slot* copied = nullptr;        // head and data, where the provider wants registered memory and data is not
  fid_mr* own_region = nullptr;  // of this object
  Message* message = nullptr;
  int to = 0;
};

/// An endpoint on one interface with its memory.
struct Rail {
  fi_info* info = nullptr;
  std::size_t piece_bytes = 0;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> addresses;
  Owned<fid_cq> completions;
  bool registers = false;  // memory, before it is sent from
  DeviceKind devices = DeviceKind::none;
  int device = -1;  // where landings are; -1: in this process's memory
  AllocateOnDevice allocate;
  std::vector<std::shared_ptr<std::byte>> landing_memory;
  std::vector<Owned<fid_mr>> regions;  // also those that larger ones took the place of: sends may still be using them
  struct Region {
    std::size_t bytes = 0;
    Owned<fid_mr> region;
    int uses = 0;
    bool on_device = false;
  };
  std::map<const std::byte*, Region> attached;  // by where it begins
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory, landing_memory_here;  // in whole pages: a device may pin them
  std::function<void(std::byte*, std::size_t)> on_memory;
  std::deque<Slot> slots;
  std::vector<Slot*> free_slots;
  std::deque<Landing> landings;
  std::vector<Landing*> free_landings;
  std::deque<PieceHead> to_land;
  int landing = 0, most_landing = 0;  // asked for and not here
  std::uint32_t apart = 0;
  std::deque<std::vector<Outgoing>> outgoing_blocks;
  std::vector<Outgoing*> free_outgoing;
  std::map<int, std::deque<Outgoing*>>
      backlog;  // by peer: the provider was full, or the peer is not there yet; who waits holds up nobody else
  std::vector<fi_addr_t> peers;
  int fd = -1;
  std::uint64_t next_key = 0;
  std::size_t under_way = 0;
  Owned<fid_ep> endpoint;  // last, so that it is closed first

  void open(fi_info* chosen, const OfiOptions& options) {
    info = chosen;
    piece_bytes = options.piece_bytes;
    most_landing = options.posted_pieces;
    devices = options.devices;
    registers = options.register_always || (info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    fid_fabric* f = nullptr;
    check(fi_fabric(info->fabric_attr, &f, nullptr), "opening the fabric");
    fabric.reset(f);
    fid_domain* d = nullptr;
    check(fi_domain(f, info, &d, nullptr), "opening the domain");
    domain.reset(d);
    fi_av_attr av{};
    av.type = info->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info->domain_attr->av_type;
    fid_av* a = nullptr;
    check(fi_av_open(d, &av, &a, nullptr), "opening the address vector");
    addresses.reset(a);
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_TAGGED;
    cq.wait_obj = FI_WAIT_FD;
    cq.size = 4096;
    fid_cq* c = nullptr;
    if (fi_cq_open(d, &cq, &c, nullptr) != 0) {
      cq.wait_obj = FI_WAIT_NONE;  // EFA: poll
      check(fi_cq_open(d, &cq, &c, nullptr), "opening the completion queue");
    }
    completions.reset(c);
    if (cq.wait_obj == FI_WAIT_FD) check(fi_control(&c->fid, FI_GETWAIT, &fd), "asking for the completion queue's descriptor");
    fid_ep* e = nullptr;
    check(fi_endpoint(d, info, &e, nullptr), "opening the endpoint");
    endpoint.reset(e);
    check(fi_ep_bind(e, &a->fid, 0), "binding the address vector");
    check(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV), "binding the completion queue");
    // Else EFA takes memory of a device that it cannot reach, and copies it on its own.
    int direct = FI_HMEM_P2P_REQUIRED;
    if (devices == DeviceKind::cuda && fi_setopt(&e->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &direct, sizeof direct) != 0)
      devices = DeviceKind::none;
    check(fi_enable(e), "enabling the endpoint");
  }

  Owned<fid_mr> registered(const void* base, std::size_t bytes) {
    fid_mr* region = nullptr;
    check(fi_mr_reg(domain.get(), base, bytes, FI_SEND | FI_RECV, 0, next_key++, 0, &region, nullptr), "registering memory");
    return Owned<fid_mr>(region);
  }
  /// Null if it cannot be: a library without CUDA, a driver without GPUDirect RDMA, no window left to map it in.
  Owned<fid_mr> registered_on_device(std::byte* base, std::size_t bytes) {
    const iovec span{base, bytes};
    fi_mr_attr attributes{};
    attributes.mr_iov = &span;
    attributes.iov_count = 1;
    // A receiver fetches what is long by itself (EFA's long read).
    attributes.access = FI_SEND | FI_RECV | (devices == DeviceKind::cuda ? FI_REMOTE_READ : 0);
    attributes.requested_key = next_key++;
    if (devices == DeviceKind::cuda) {
      attributes.iface = FI_HMEM_CUDA;
      attributes.device.cuda = device;
    }
    fid_mr* region = nullptr;
    return Owned<fid_mr>(fi_mr_regattr(domain.get(), &attributes, 0, &region) == 0 ? region : nullptr);
  }
  /// For the port's own memory, which stays. Null if the provider does without.
  fid_mr* register_memory(const void* base, std::size_t bytes) {
    return registers ? regions.emplace_back(registered(base, bytes)).get() : nullptr;
  }

  static constexpr std::size_t kBlock = 8;  // slots
  static constexpr std::size_t kPage = 4096;
  std::size_t slot_bytes() const { return sizeof(PieceHead) + piece_bytes; }
  std::size_t block_bytes() const { return (kBlock * slot_bytes() + kPage - 1) / kPage * kPage; }

  Slot* new_slot() {
    if (free_slots.empty()) {
      const std::size_t bytes = slot_bytes();
      memory.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kPage, block_bytes())));
      if (!memory.back()) throw std::bad_alloc();
      fid_mr* region = register_memory(memory.back().get(), block_bytes());
      if (on_memory) on_memory(memory.back().get(), block_bytes());
      for (std::size_t i = 0; i < kBlock; ++i) {
        Slot& slot = slots.emplace_back();
        slot.memory = memory.back().get() + i * bytes;
        slot.region = region;
        free_slots.push_back(&slot);
      }
    }
    Slot* slot = free_slots.back();
    free_slots.pop_back();
    return slot;
  }

  Outgoing* new_outgoing() {
    if (free_outgoing.empty()) {
      auto& block = outgoing_blocks.emplace_back(128);
      fid_mr* region = register_memory(block.data(), block.size() * sizeof(Outgoing));
      for (Outgoing& o : block) {
        o.kind = Operation::Kind::send;
        o.own_region = region;
        free_outgoing.push_back(&o);
      }
    }
    Outgoing* o = free_outgoing.back();
    free_outgoing.pop_back();
    return o;
  }

  void receive(std::byte* into, std::size_t bytes, fid_mr* region, std::uint64_t tag, Operation& operation) {
    long code = -FI_EAGAIN;
    while ((code = fi_trecv(endpoint.get(), into, bytes, region ? fi_mr_desc(region) : nullptr, FI_ADDR_UNSPEC, tag, 0,
                            &operation.scratch)) == -FI_EAGAIN)
      fi_cq_read(completions.get(), nullptr, 0);
    check(code, "posting a receive");
  }
  void post_receive() {
    Slot* slot = new_slot();
    receive(slot->memory, slot_bytes(), slot->region, kTag, *slot);
  }

  static constexpr std::size_t kLandingBytes = kApartBytes + kPage;  // the lead, and the next begins on a page
  static constexpr std::size_t kLandingBlock = 16;
  void add_landings(std::byte* block, fid_mr* region, int where) {
    for (std::size_t i = 0; i < kLandingBlock; ++i) {
      Landing& one = landings.emplace_back();
      one.memory = block + i * kLandingBytes;
      one.region = region;
      one.device = where;
      free_landings.push_back(&one);
    }
  }
  /// A block more of them on the device; false if that is full, or out of libfabric's reach.
  bool add_landings_on_device() {
    std::shared_ptr<std::byte> block;
    try {
      block = allocate(kLandingBlock * kLandingBytes);
    } catch (const TransportError&) {
      return false;
    }
    auto region = registered_on_device(block.get(), kLandingBlock * kLandingBytes);
    if (!region) return false;
    add_landings(block.get(), region.get(), device);
    landing_memory.push_back(std::move(block));
    regions.push_back(std::move(region));
    return true;
  }
  void add_landings_here() {
    constexpr std::size_t bytes = kLandingBlock * kLandingBytes;
    landing_memory_here.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
    std::byte* block = landing_memory_here.back().get();
    if (!block) throw std::bad_alloc();
    if (on_memory) on_memory(block, bytes);
    add_landings(block, register_memory(block, bytes), -1);
  }
  void land() {
    for (; !to_land.empty() && landing < most_landing; to_land.pop_front(), ++landing) {
      if (free_landings.empty() && !(device >= 0 && add_landings_on_device())) add_landings_here();
      Landing* next = free_landings.back();
      free_landings.pop_back();
      next->head = to_land.front();
      receive(next->memory + next->head.lead, next->head.bytes, next->region, apart_tag(next->head), *next);
    }
  }

  /// False: the provider is full for now.
  bool try_send(Outgoing& o) {
    const fi_addr_t peer = peers[static_cast<std::size_t>(o.to)];
    long code = 0;
    if (o.bare) {
      code = fi_tsend(endpoint.get(), o.data, o.head.bytes, fi_mr_desc(o.region), peer, apart_tag(o.head), &o.scratch);
    } else if (o.copied) {
      code = fi_tsend(endpoint.get(), o.copied->memory, sizeof o.head + o.head.bytes, fi_mr_desc(o.copied->region), peer, kTag,
                      &o.scratch);
    } else {
      const iovec parts[2] = {{&o.head, sizeof o.head}, {const_cast<std::byte*>(o.data), o.head.bytes}};
      void* descriptors[2] = {o.own_region ? fi_mr_desc(o.own_region) : nullptr, o.region ? fi_mr_desc(o.region) : nullptr};
      const bool alone = o.head.bytes == 0 || o.head.apart != 0;
      code = fi_tsendv(endpoint.get(), parts, descriptors, alone ? 1 : 2, peer, kTag, &o.scratch);
    }
    if (code == -FI_EAGAIN) return false;
    if (code != 0)
      fail(fmt::format("rank {}: sending {} bytes to rank {} ({})", o.head.from, o.head.bytes, o.to, describe_tag(o.head.tag)),
           code);
    ++under_way;
    return true;
  }

  const Region* region_of(const std::byte* data, std::size_t bytes) const {
    auto after = attached.upper_bound(data);
    if (after == attached.begin()) return nullptr;
    const auto& [base, known] = *std::prev(after);
    return data + bytes <= base + known.bytes ? &known : nullptr;
  }
  void detach(std::byte* base) {
    if (const auto known = attached.find(base); known != attached.end() && --known->second.uses == 0) attached.erase(known);
  }
};

/// Names of what has reliable datagrams here.
std::vector<std::string> providers() {
  std::set<std::string> names;
  const Info all = query("", 0);
  for (const fi_info* info = all.get(); info; info = info->next) names.insert(info->fabric_attr->prov_name);
  return {names.begin(), names.end()};
}

class Ofi final : public OfiPort {
 public:
  explicit Ofi(const OfiOptions& options) : options_(options) {
    if (options.devices == DeviceKind::cuda) infos_ = query(options.provider, options.piece_bytes, true);
    if (!infos_) {
      if (options_.devices == DeviceKind::cuda) options_.devices = DeviceKind::none;
      infos_ = query(options.provider, options.piece_bytes);
    }
    const auto chosen = infos_ ? choose(infos_.get(), options) : std::vector<fi_info*>{};
    if (chosen.empty())
      throw TransportError(fmt::format("libfabric has no provider '{}' with reliable datagrams here{}; it has: {}",
                                       options.provider, options.address.empty() ? "" : " on " + options.address,
                                       fmt::join(providers(), ", ")));
    for (fi_info* info : chosen) {
      rails_.push_back(std::make_unique<Rail>());
      rails_.back()->open(info, options);
      for (int i = 0; i < options.posted_pieces; ++i) rails_.back()->post_receive();
      if (rails_.back()->devices == DeviceKind::none) options_.devices = DeviceKind::none;
    }
  }

  std::string address() const override {
    std::string all;
    for (const auto& rail : rails_) {
      std::vector<std::uint8_t> name(256);
      std::size_t length = name.size();
      check(fi_getname(&rail->endpoint->fid, name.data(), &length), "asking for the endpoint's address");
      name.resize(length);
      all += (all.empty() ? "" : ",") + hex(name);
    }
    return all;
  }

  void connect(std::span<const std::string> addresses) override {
    for (auto& rail : rails_) rail->peers.assign(addresses.size(), FI_ADDR_UNSPEC);
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      std::vector<std::vector<std::uint8_t>> names;
      for (std::size_t at = 0; at < addresses[rank].size();) {
        const std::size_t end = std::min(addresses[rank].find(',', at), addresses[rank].size());
        names.push_back(unhex(std::string_view(addresses[rank]).substr(at, end - at)));
        at = end + 1;
      }
      for (std::size_t i = 0; i < rails_.size() && !names.empty(); ++i)
        if (fi_av_insert(rails_[i]->addresses.get(), names[i % names.size()].data(), 1, &rails_[i]->peers[rank], 0, nullptr) != 1)
          throw TransportError(fmt::format("libfabric: the address of rank {} is not accepted", rank));
    }
  }

  bool attach(std::byte* base, std::size_t bytes) override {
    return attach(base, bytes, false, [&](Rail& rail) { return rail.registers ? rail.registered(base, bytes) : nullptr; });
  }

  void detach(std::byte* base) override {
    for (auto& rail : rails_) rail->detach(base);
  }

  bool use_device(int device, AllocateOnDevice allocate) override {
    if (options_.devices == DeviceKind::none) return false;
    for (auto& rail : rails_) {
      rail->device = device;
      rail->allocate = allocate;
      if (rail->add_landings_on_device()) continue;
      options_.devices = DeviceKind::none;
      for (auto& each : rails_) {  // what some of them have already is of no use without the others
        if (!each->landing_memory.empty()) each->regions.pop_back();
        each->landing_memory.clear();
        each->free_landings.clear();
        each->landings.clear();
        each->device = -1;
      }
      return false;
    }
    return true;
  }

  bool attach_device(std::byte* base, std::size_t bytes) override {
    if (options_.devices == DeviceKind::none) return false;
    return attach(base, bytes, true, [&](Rail& rail) { return rail.registered_on_device(base, bytes); });
  }

  bool sends_from(const std::byte* data, std::size_t bytes) const override {
    return std::all_of(rails_.begin(), rails_.end(), [&](const auto& rail) {
      const Rail::Region* region = rail->region_of(data, bytes);
      return region && region->on_device;
    });
  }

  void on_memory(std::function<void(std::byte*, std::size_t)> use) override {
    for (auto& rail : rails_) {
      for (const auto& block : rail->memory) use(block.get(), rail->block_bytes());
      for (const auto& block : rail->landing_memory_here) use(block.get(), Rail::kLandingBlock * Rail::kLandingBytes);
      rail->on_memory = use;
    }
  }

  void send(int to, const PieceHead& head, Event send, const std::byte* data) override {
    const Rail::Region* known = head.bytes > 0 ? rails_[0]->region_of(data, head.bytes) : nullptr;
    const bool apart = known && known->on_device;
    // Ordinary memory in a device's place travels over providers (rxm) that answer what is longer with a rendezvous.
    const std::size_t most = apart && options_.devices == DeviceKind::cuda ? kApartBytes : options_.piece_bytes;
    const std::size_t pieces = std::max<std::size_t>(1, (head.bytes + most - 1) / most);
    Message* message = new_message();
    *message = {send, apart ? 2 * pieces : pieces};
    for (std::size_t i = 0; i < pieces; ++i) {
      Rail& rail = *rails_[turn_++ % rails_.size()];
      const std::size_t first = i * most;
      PieceHead one = head;
      one.offset = head.offset + first;
      one.bytes = std::min(most, head.bytes - first);
      if (apart) {
        if (++rail.apart == 0) ++rail.apart;
        one.apart = rail.apart;
        one.lead = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(data + first) % PieceHead::kLead);
      }
      start(rail, to, one, data + first, message, false);
      if (apart) start(rail, to, one, data + first, message, true);
    }
  }

  bool progress(PortUser& user) override {
    bool any = false;
    for (auto& rail : rails_) {
      any |= complete(*rail, user);
      for (auto peer = rail->backlog.begin(); peer != rail->backlog.end();) {
        auto& waiting = peer->second;
        for (; !waiting.empty() && rail->try_send(*waiting.front()); any = true) waiting.pop_front();
        peer = waiting.empty() ? rail->backlog.erase(peer) : std::next(peer);
      }
    }
    return any;
  }

  int may_sleep(std::vector<pollfd>& wait_for) override {
    int longest = -1;
    for (auto& rail : rails_) {
      if (rail->fd < 0) return 0;
      fid* waits[] = {&rail->completions->fid};
      if (fi_trywait(rail->fabric.get(), waits, 1) != 0) return 0;
      wait_for.push_back({rail->fd, POLLIN, 0});
      // A full provider says nothing when there is room again, and a connection being made is no completion.
      if (!rail->backlog.empty()) longest = 1;
      else if (rail->under_way > 0 && longest < 0) longest = 20;
    }
    return longest;
  }

 private:
  /// Registered on all rails or on none.
  template <class Register>
  bool attach(std::byte* base, std::size_t bytes, bool on_device, Register registered) {
    std::vector<Owned<fid_mr>> fresh(rails_.size());
    for (std::size_t i = 0; i < rails_.size(); ++i) {
      const auto known = rails_[i]->attached.find(base);
      if (known != rails_[i]->attached.end() && bytes <= known->second.bytes) continue;
      fresh[i] = registered(*rails_[i]);
      if (!fresh[i]) return false;
    }
    for (std::size_t i = 0; i < rails_.size(); ++i) {
      Rail::Region& known = rails_[i]->attached[base];
      ++known.uses;
      if (!fresh[i]) continue;
      if (known.region) rails_[i]->regions.push_back(std::move(known.region));
      known.region = std::move(fresh[i]);
      known.bytes = bytes;
      known.on_device = on_device;
    }
    return true;
  }

  void start(Rail& rail, int to, const PieceHead& head, const std::byte* data, Message* message, bool bare) {
    Outgoing* o = rail.new_outgoing();
    o->head = head;
    o->bare = bare;
    o->data = data;
    o->message = message;
    o->to = to;
    o->region = nullptr;
    const bool with_data = head.bytes > 0 && (bare || head.apart == 0);
    if (with_data && (bare || rail.registers)) {
      if (const Rail::Region* known = rail.region_of(data, head.bytes)) {
        o->region = known->region.get();
      } else if (bare) {
        throw TransportError(
            fmt::format("rank {}: memory that is being sent to rank {} was detached ({})", head.from, to, describe_tag(head.tag)));
      } else {
        o->copied = rail.new_slot();
        std::memcpy(o->copied->memory, &o->head, sizeof o->head);
        std::memcpy(o->copied->memory + sizeof o->head, o->data, o->head.bytes);
      }
    }
    if (rail.backlog.contains(to) || !rail.try_send(*o)) rail.backlog[to].push_back(o);
  }

  bool complete(Rail& rail, PortUser& user) {
    fi_cq_tagged_entry entries[16];
    const auto count = fi_cq_read(rail.completions.get(), entries, 16);
    if (count == -FI_EAGAIN || count == 0) return false;
    if (count == -FI_EAVAIL) explain(rail);
    if (count < 0) fail("reading the completion queue", count);
    for (long i = 0; i < count; ++i) {
      auto* operation = reinterpret_cast<Operation*>(entries[i].op_context);
      if (operation->kind == Operation::Kind::send) {
        auto* o = static_cast<Outgoing*>(operation);
        --rail.under_way;
        if (o->copied) rail.free_slots.push_back(o->copied);
        o->copied = nullptr;
        Message* message = o->message;
        rail.free_outgoing.push_back(o);
        if (--message->pieces_left == 0) {
          const Event send = message->send;
          free_messages_.push_back(message);
          user.sent(send);
        }
      } else if (operation->kind == Operation::Kind::landing) {
        auto* landed = static_cast<Landing*>(operation);
        --rail.landing;
        const PieceHead head = landed->head;
        if (entries[i].len != head.bytes)
          throw TransportError(fmt::format("libfabric: rank {} announced {} bytes from its device and sent {} ({})", head.from,
                                           head.bytes, entries[i].len, describe_tag(head.tag)));
        user.arrived(Piece(
            head, landed->memory + head.lead, [&rail, landed] { rail.free_landings.push_back(landed); }, landed->device));
      } else {
        auto* slot = static_cast<Slot*>(operation);
        rail.post_receive();  // before anything else, so that senders find room
        PieceHead head;
        std::memcpy(&head, slot->memory, sizeof head);
        const std::size_t with = entries[i].len - sizeof head;  // as much came with the head
        const bool sound =
            entries[i].len >= sizeof head && head.from < rail.peers.size() && head.offset <= head.total &&
            head.bytes <= head.total - head.offset &&
            (head.apart == 0 ? with == head.bytes : with == 0 && head.bytes <= kApartBytes && head.lead < PieceHead::kLead);
        if (!sound || head.apart != 0) {
          rail.free_slots.push_back(slot);
          if (sound) rail.to_land.push_back(head);  // else not one of ours
          continue;
        }
        user.arrived(Piece(head, slot->memory + sizeof head, [&rail, slot] { rail.free_slots.push_back(slot); }));
      }
    }
    rail.land();
    return true;
  }

  [[noreturn]] void explain(Rail& rail) {
    fi_cq_err_entry error{};
    if (fi_cq_readerr(rail.completions.get(), &error, 0) < 0) fail("reading the completion queue's error", FI_EOTHER);
    std::string doing = "receiving";
    if (auto* operation = reinterpret_cast<Operation*>(error.op_context); operation && operation->kind == Operation::Kind::send) {
      const auto* o = static_cast<Outgoing*>(operation);
      doing = fmt::format("rank {}: send to rank {} ({}), {} bytes", o->head.from, o->to, describe_tag(o->head.tag), o->head.bytes);
    }
    char text[256] = "";
    const char* why = fi_cq_strerror(rail.completions.get(), error.prov_errno, error.err_data, text, sizeof text);
    throw TransportError(fmt::format("libfabric: {}: {} ({})", doing, fi_strerror(error.err), why ? why : ""));
  }

  Message* new_message() {
    if (free_messages_.empty()) return &messages_.emplace_back();
    Message* message = free_messages_.back();
    free_messages_.pop_back();
    return message;
  }

  OfiOptions options_;
  Info infos_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::deque<Message> messages_;
  std::vector<Message*> free_messages_;
  std::size_t turn_ = 0;
};

std::string version(const OfiOptions& options) {
  const std::uint32_t version = fi_version();
  const Info info = query(options.provider, options.piece_bytes);
  return fmt::format("libfabric {}.{}{}", FI_MAJOR(version), FI_MINOR(version),
                     info ? fmt::format(", {} {}.{}", info->fabric_attr->prov_name, FI_MAJOR(info->fabric_attr->prov_version),
                                        FI_MINOR(info->fabric_attr->prov_version))
                          : "");
}

std::unique_ptr<OfiPort> open(const OfiOptions& options) { return std::make_unique<Ofi>(options); }

}  // namespace
}  // namespace foreduce

extern "C" const foreduce::OfiModule foreduce_ofi{foreduce::version, foreduce::providers, foreduce::open};
